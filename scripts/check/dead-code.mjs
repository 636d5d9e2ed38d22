/** Dead code: knip finds files, exports and dependencies that nothing reaches, and packages used without being declared. See knip.json. */
import { runTool } from './run-tool.mjs';

/** knip's kinds of findings, as they are called here. */
const RULES = {
  files: 'unused-file',
  dependencies: 'unused-dependency',
  devDependencies: 'unused-dev-dependency',
  optionalPeerDependencies: 'unlisted-peer',
  unlisted: 'undeclared-dependency',
  unresolved: 'unresolved-import',
  binaries: 'undeclared-binary',
  exports: 'unused-export',
  types: 'unused-type',
  enumMembers: 'unused-member',
  namespaceMembers: 'unused-member',
  duplicates: 'exported-twice',
  catalog: 'unused-catalog-entry',
};

/** The build's tsconfig says which source an exports map's `dist/` file is made from. */
const ARGUMENTS = ['--tsConfig', 'tsconfig.build.json', '--reporter', 'json', '--no-progress', '--no-config-hints', '--no-tag-hints'];

export async function checkDeadCode(root) {
  const { code, stdout, stderr } = await runTool(root, 'knip', ARGUMENTS);
  if (code > 1) throw new Error(`knip could not run:\n${stdout}${stderr}`);
  const { issues } = JSON.parse(stdout);
  const findings = issues.flatMap(({ file, ...kinds }) =>
    Object.entries(kinds).flatMap(([kind, found]) =>
      Array.isArray(found) ? found.flat().map((one) => ({ rule: RULES[kind] ?? kind, file, line: one.line, message: one.name ?? file })) : [],
    ),
  );
  if (code !== 0 && findings.length === 0) findings.push({ rule: 'knip', message: `exit code ${code}\n${stdout}${stderr}` });
  return { findings, seen: 'files, exports and dependencies' };
}
