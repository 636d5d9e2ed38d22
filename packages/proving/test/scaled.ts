/** What `npm test` takes, or what `pnpm prove` does: the same test, short or long. */
export function scaled<Value>(short: Value, long: Value): Value {
  return process.env['ONWARD_PROVE'] === '1' ? long : short;
}
