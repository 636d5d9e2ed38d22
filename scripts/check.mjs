/**
 * `pnpm check`: the gate. Runs every check in order, prints a line for each, and what is wrong below it; ends with 1 when anything is.
 *
 *   pnpm check                       everything
 *   pnpm check types lint            only these
 *   pnpm check --write               writes docs/openapi.json instead of comparing with it
 *   pnpm check --prove               plants breaches of the laws in a copy of the checkout and asks each check to find its own
 *   pnpm check --json                the findings by check, as JSON
 *
 * A check is a function of the checkout's folder that answers `{ findings: [{ rule, file?, line?, message }], seen }`; `seen` says how
 * much it looked at, so that a check that has gone blind can be noticed. A check that throws is red too.
 */
import { checkDeadCode } from './check/dead-code.mjs';
import { checkFormat } from './check/format.mjs';
import { checkImportLaws } from './check/import-laws.mjs';
import { checkLibraries } from './check/libraries.mjs';
import { checkLint } from './check/lint.mjs';
import { checkOpenApi } from './check/openapi.mjs';
import { prove } from './check/plant.mjs';
import { checkSchemaDrift } from './check/schema-drift.mjs';
import { checkSourceLaws } from './check/source-laws.mjs';
import { checkTypes } from './check/types.mjs';
import { ROOT } from './set-up.mjs';

const CHECKS = {
  types: checkTypes,
  lint: checkLint,
  format: checkFormat,
  'import-laws': checkImportLaws,
  'source-laws': checkSourceLaws,
  'dead-code': checkDeadCode,
  libraries: checkLibraries,
  'schema-drift': checkSchemaDrift,
  openapi: checkOpenApi,
};
const SHOWN_FINDINGS = 40;

const printLines = {
  one({ name, findings, seen, seconds }) {
    process.stdout.write(`${findings.length === 0 ? 'ok ' : 'RED'} ${name.padEnd(13)}${seconds.toFixed(1).padStart(5)} s  ${seen}\n`);
    for (const { rule, file, line, message } of findings.slice(0, SHOWN_FINDINGS)) {
      process.stdout.write(`      ${file === undefined ? '' : `${file}${line === undefined ? '' : `:${line}`}  `}${rule}: ${message}\n`);
    }
    if (findings.length > SHOWN_FINDINGS) process.stdout.write(`      … and ${findings.length - SHOWN_FINDINGS} more\n`);
  },
  all(results, red) {
    process.stdout.write(red === 0 ? 'All good.\n' : `${red} of ${results.length} checks are red.\n`);
  },
};

const printJson = {
  one() {},
  all(results) {
    process.stdout.write(JSON.stringify(Object.fromEntries(results.map(({ name, findings }) => [name, findings]))));
  },
};

const flags = process.argv.slice(2).filter((word) => word.startsWith('--'));
const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const unknown = [...flags.filter((flag) => !['--write', '--prove', '--json'].includes(flag)), ...wanted.filter((name) => CHECKS[name] === undefined)];
if (unknown.length > 0) {
  process.stderr.write(`Not known: ${unknown.join(' ')}\nUsage: pnpm check [--write | --prove | --json] [${Object.keys(CHECKS).join(' | ')}]\n`);
  process.exit(2);
}

const chosen = Object.entries(CHECKS).filter(([name]) => wanted.length === 0 || wanted.includes(name));
const isGood = flags.includes('--prove')
  ? await prove(
      ROOT,
      chosen.map(([name]) => name),
    )
  : await runAll(chosen, { isWriting: flags.includes('--write') }, flags.includes('--json') ? printJson : printLines);
process.exitCode = isGood ? 0 : 1;

async function runAll(checks, options, print) {
  const results = [];
  for (const [name, check] of checks) {
    const startedAt = performance.now();
    const result = { name, ...(await run(check, options)), seconds: (performance.now() - startedAt) / 1_000 };
    results.push(result);
    print.one(result);
  }
  const red = results.filter(({ findings }) => findings.length > 0).length;
  print.all(results, red);
  return red === 0;
}

async function run(check, options) {
  try {
    return await check(ROOT, options);
  } catch (error) {
    return { findings: [{ rule: 'check-failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) }], seen: '' };
  }
}
