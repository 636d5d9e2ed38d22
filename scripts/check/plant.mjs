/**
 * Proves the checks: plants breaches in a copy of the checkout (breaches.mjs), runs each check there, asks for the right rule at the
 * right place, and takes the breaches away again. Breaches of one check are planted together, those marked `alone` one by one.
 */
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { BREACHES } from './breaches.mjs';

/** Answers whether every breach was found. `names` are the checks to prove. */
export async function prove(root, names) {
  const copy = copyCheckout(root);
  let missed = 0;
  try {
    for (const name of names) {
      const breaches = BREACHES[name] ?? [];
      if (breaches.length === 0) {
        process.stdout.write(`MISSED ${name}: nothing is planted for it\n`);
        missed++;
      }
      for (const batch of [breaches.filter(({ alone }) => !alone), ...breaches.filter(({ alone }) => alone).map((one) => [one])]) {
        if (batch.length > 0) missed += await proveBatch(copy, name, batch);
      }
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  process.stdout.write(missed === 0 ? 'Every breach was found.\n' : `${missed} breaches were not found.\n`);
  return missed === 0;
}

async function proveBatch(copy, name, breaches) {
  const undos = [];
  let findings;
  try {
    for (const breach of breaches) undos.push(...plant(copy, breach));
    findings = await runCheck(copy, name);
  } catch (error) {
    findings = [{ rule: 'check-failed', message: error.message }];
  } finally {
    for (const undo of undos.reverse()) undo();
  }
  const missed = breaches.filter(
    ({ rule, at, says }) => !findings.some((found) => found.rule === rule && (at ?? found.file) === found.file && found.message.includes(says ?? '')),
  );
  for (const breach of breaches) process.stdout.write(`${missed.includes(breach) ? 'MISSED' : 'found '} ${name}: ${breach.law} (${breach.rule})\n`);
  const strange = findings.filter(({ rule }) => rule === 'check-failed');
  if (missed.length > 0) for (const { message } of strange) process.stdout.write(`       ${message}\n`);
  return missed.length;
}

/** Plants it and answers what undoes it. `write` makes files, `edit` replaces text in them, `link` shows a name somewhere else. */
function plant(copy, { write = {}, edit = {}, link = {} }) {
  const changes = [
    ...Object.entries(write).map(([file, text]) => [file, () => text]),
    ...Object.entries(edit).map(([file, [from, to]]) => [file, (text) => replaceSomething(file, text, from, to)]),
  ];
  return [
    ...changes.map(([file, make]) => {
      const path = join(copy, file);
      const before = existsSync(path) ? readFileSync(path, 'utf8') : undefined;
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, make(before));
      return () => (before === undefined ? rmSync(path) : writeFileSync(path, before));
    }),
    ...Object.entries(link).map(([name, target]) => {
      mkdirSync(dirname(join(copy, name)), { recursive: true });
      symlinkSync(join(copy, target), join(copy, name));
      return () => rmSync(join(copy, name));
    }),
  ];
}

function replaceSomething(file, text, from, to) {
  const changed = text?.replace(from, to);
  if (changed === text) throw new Error(`there is no ${from} in ${file} to plant a breach on`);
  return changed;
}

/** Runs the copy's own check in a process of its own, so that nothing is remembered from the batch before. */
function runCheck(copy, name) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(copy, 'scripts/check.mjs'), name, '--json'], { cwd: copy, stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      printed += text;
    });
    child.once('error', reject);
    child.once('close', (code) => {
      try {
        if (code === 0) resolve([]);
        else resolve(JSON.parse(printed)[name]);
      } catch (error) {
        reject(new Error(`${name} gave no report (exit code ${code}):\n${printed}`, { cause: error }));
      }
    });
  });
}

/** Everything but the history and local data; what is installed is shown, not copied, save for the links in each package. */
function copyCheckout(root) {
  const copy = mkdtempSync(join(tmpdir(), 'onward-prove-'));
  const left = new Set(['.git', '.onward', 'node_modules', 'samples'].map((name) => join(root, name)));
  cpSync(root, copy, { recursive: true, verbatimSymlinks: true, filter: (path) => !left.has(path) });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}
