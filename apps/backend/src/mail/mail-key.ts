/** What a run that rests for a mail waits on: the name of its message as a wait key. */
export function mailKey(messageId: string): string {
  return `mail:${messageId}`;
}
