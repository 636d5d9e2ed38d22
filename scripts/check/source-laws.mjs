/**
 * Source laws: those about names, sizes and text that neither an import nor a type shows. Each reads files as text, so each is simple
 * and may be told off by an unusual way of writing; review has the last word.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPackages, findSources, walk } from './workspace.mjs';

const DRAWERS = new Set(['utils', 'util', 'common', 'helpers', 'shared', 'core', 'lib']);
const LONG = 300; // lines
const READS_ENVIRONMENT = /\bprocess\s*(\.|\?\.|\[\s*['"])\s*env\b|\benv\b[^;=\n]*\}\s*=\s*process\b/;
/** An import the cruiser cannot follow: in the place of a type, or through a require made by hand. */
const HIDDEN_IMPORT =
  /(?:typeof\s|[:<|&(,=]\s*|\bas\s|\bsatisfies\s|\bextends\s)import\(\s*['"][^'"]+['"]\s*\)(?!\s*\.then)[\w.[\]'"]*(?=\s*[;,>)|&}=\n])|\bcreateRequire\b|\bgetBuiltinModule\b/;
/** These find the programs of packages that carry no code to import, and start them. */
const MAY_HIDE = /^packages\/(stack|bench|proving)\//;

export async function checkSourceLaws(root) {
  const all = walk(root);
  const packages = findPackages(root);
  const sources = packages.flatMap(({ folder }) => findSources(root, folder, 'src')).map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));
  const findings = [
    ...all
      .filter(({ path, isFolder }) => isFolder && DRAWERS.has(path.split('/').at(-1)))
      .map(({ path }) => ({ rule: 'no-drawer', file: path, message: 'a folder is named by what it holds' })),
    ...all
      .filter(({ path, isFolder }) => !isFolder && /\/src\/(.*\/)?index\.[cm]?[jt]sx?$/.test(path))
      .map(({ path }) => ({ rule: 'no-index', file: path, message: 'import the file that has the thing' })),
    ...sources.filter(isLongWithoutReason).map(({ file }) => ({
      rule: 'long-file-says-why',
      file,
      message: `has over ${LONG} lines and no sentence in its header that begins with "Long because"`,
    })),
    ...sources.filter(hidesImport).map(({ file, text }) => ({
      rule: 'no-hidden-import',
      file,
      line: lineOf(text, HIDDEN_IMPORT),
      message: 'import it plainly, so that the import laws hold',
    })),
    ...packages.flatMap(({ folder }) => findSecondReaders(folder, sources)),
  ];
  return { findings, seen: `${all.filter(({ isFolder }) => !isFolder).length} files, ${sources.length} of them sources` };
}

function isLongWithoutReason({ file, text }) {
  if (file.includes('/migrations/') || text.trimEnd().split('\n').length <= LONG) return false;
  const header = /\/\*\*[\s\S]*?\*\//.exec(text)?.[0] ?? '';
  return !/\bLong because\b/.test(header);
}

function hidesImport({ file, text }) {
  return !MAY_HIDE.test(file) && HIDDEN_IMPORT.test(withoutComments(text));
}

/** One file of a package reads the environment. Which one it may be is a matter of .oxlintrc.json; here they are counted. */
function findSecondReaders(folder, sources) {
  const readers = sources.filter(({ file, text }) => file.startsWith(`${folder}/`) && READS_ENVIRONMENT.test(withoutComments(text)));
  if (readers.length <= 1) return [];
  return readers.map(({ file, text }) => ({
    rule: 'one-environment-reader',
    file,
    line: lineOf(text, READS_ENVIRONMENT),
    message: `is one of ${readers.length} in ${folder}`,
  }));
}

/** Comments become blanks, so that lines keep their numbers; a `//` inside a text may cost the rest of its line. */
function withoutComments(text) {
  return text.replace(/\/\*[\s\S]*?\*\/|(?<![:'"`\\])\/\/.*$/gm, (comment) => comment.replace(/[^\n]/g, ' '));
}

function lineOf(text, pattern) {
  const at = pattern.exec(withoutComments(text))?.index ?? 0;
  return text.slice(0, at).split('\n').length;
}
