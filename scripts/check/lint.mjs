/** Lint: oxlint with the type-aware rules (real TypeScript types through tsgolint). What it asks for stands in .oxlintrc.json. */
import { runTool } from './run-tool.mjs';

const ENOUGH_FILES = 100; // fewer means that it looked in the wrong place

export async function checkLint(root) {
  const { stdout, stderr } = await runTool(root, 'oxlint', ['--type-aware', '--report-unused-disable-directives-severity=error', '--format=json']);
  const report = parse(stdout, stderr);
  const findings = report.diagnostics.map(({ code, filename, labels, message }) => ({
    rule: code ?? 'parse',
    file: filename,
    line: labels[0]?.span.line,
    message,
  }));
  if (report.number_of_files < ENOUGH_FILES) findings.push({ rule: 'blind', message: `only ${report.number_of_files} files were looked at` });
  return { findings, seen: `${report.number_of_files} files, ${report.number_of_rules} rules` };
}

function parse(stdout, stderr) {
  try {
    return JSON.parse(stdout);
  } catch {
    throw new Error(`oxlint gave no report:\n${stdout}${stderr}`);
  }
}
