/** Format: every file is as biome writes it. `pnpm format` writes them so. */
import { runTool } from './run-tool.mjs';

const ENOUGH_FILES = 100; // fewer means that it looked in the wrong place

export async function checkFormat(root) {
  const { code, stdout, stderr } = await runTool(root, 'biome', ['format', '--reporter=json', '--max-diagnostics=none', '.']);
  const { summary, diagnostics } = parse(stdout, stderr);
  const findings = diagnostics.map(({ category, location, severity }) => ({
    rule: category,
    file: location?.path,
    message: category === 'format' ? '`pnpm format` puts it right' : `${severity}: biome cannot read it`,
  }));
  const files = summary.changed + summary.unchanged;
  if (files < ENOUGH_FILES) findings.push({ rule: 'blind', message: `only ${files} files were looked at` });
  if (code !== 0 && findings.length === 0) findings.push({ rule: 'biome', message: `exit code ${code}\n${stderr}` });
  return { findings, seen: `${files} files` };
}

function parse(stdout, stderr) {
  try {
    return JSON.parse(stdout);
  } catch {
    throw new Error(`biome gave no report:\n${stdout}${stderr}`);
  }
}
