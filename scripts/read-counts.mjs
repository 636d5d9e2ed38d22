/**
 * What a vitest run came to, from its JSON report; all zero when there is none, as after a crash.
 * `failures` names each failed test, and each file that could not be run, in a line.
 */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

export function readCounts(file) {
  try {
    const { numPassedTests, numFailedTests, numPendingTests, numTodoTests, testResults } = JSON.parse(readFileSync(file, 'utf8'));
    return { passed: numPassedTests, failed: numFailedTests, skipped: numPendingTests + numTodoTests, failures: testResults.flatMap(failuresOf) };
  } catch {
    return { passed: 0, failed: 0, skipped: 0, failures: [] };
  }
}

function failuresOf({ name, status, message, assertionResults }) {
  const failed = assertionResults.filter((result) => result.status === 'failed');
  if (failed.length === 0 && status === 'failed') return [`${basename(name)}: ${firstLine(message)}`];
  return failed.map(({ fullName, failureMessages }) => `${basename(name)}: ${fullName}: ${firstLine(failureMessages[0])}`);
}

function firstLine(text) {
  return String(text ?? '').split('\n', 1)[0];
}
