import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { narrowSources, parseOneLine, parseStanzas, readAptSources, readDebianRelease } from '../src/apt-sources.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();
const bookworm = { suite: 'bookworm', isDebianItself: true };

describe('package sources', () => {
  test('are read in the one-line format with their options', () => {
    const text = `# a comment\ndeb [arch=amd64,arm64 signed-by=/k.gpg] http://mirror.test/debian bookworm main contrib # why\ndeb-src http://mirror.test/debian bookworm main\n deb cdrom:[Debian] bookworm main\n`;
    expect(parseOneLine(text)).toEqual([
      {
        uris: ['http://mirror.test/debian'],
        suites: ['bookworm'],
        components: ['main', 'contrib'],
        fields: { architectures: 'amd64 arm64', 'signed-by': '/k.gpg' },
      },
      { uris: ['cdrom:[Debian]'], suites: ['bookworm'], components: ['main'], fields: {} },
    ]);
  });

  test('are read in the deb822 format, with comments, an embedded key, and without what is disabled', () => {
    const text = `Types: deb deb-src\n# a comment\nURIs: http://a.test/debian\n http://b.test/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n abc\n\nEnabled: no\nTypes: deb\nURIs: http://c.test\nSuites: bookworm\nComponents: main\n\nTypes: deb-src\nURIs: http://d.test\nSuites: bookworm\nComponents: main\n`;
    expect(parseStanzas(text)).toEqual([
      {
        uris: ['http://a.test/debian', 'http://b.test/debian'],
        suites: ['bookworm', 'bookworm-updates'],
        components: ['main'],
        fields: { 'signed-by': '\n -----BEGIN\n .\n abc' },
      },
    ]);
  });

  test('are read from every file that apt itself would read', () => {
    const etc = join(folder, 'apt');
    mkdirSync(join(etc, 'sources.list.d'), { recursive: true });
    writeFileSync(join(etc, 'sources.list'), 'deb http://one.test/debian bookworm main\n');
    writeFileSync(join(etc, 'sources.list.d', 'two.list'), 'deb http://two.test/debian bookworm main\n');
    writeFileSync(join(etc, 'sources.list.d', 'three.sources'), 'Types: deb\nURIs: http://three.test/debian\nSuites: bookworm\nComponents: main\n');
    writeFileSync(join(etc, 'sources.list.d', 'four.list.disabled'), 'deb http://four.test/debian bookworm main\n');
    expect(readAptSources(etc).flatMap(({ uris }) => uris)).toEqual(['http://one.test/debian', 'http://three.test/debian', 'http://two.test/debian']);
  });

  test('are narrowed to the release, other vendors and media left out, backports asked from the same mirror with the same key', () => {
    const sources = parseOneLine(
      'deb [signed-by=/k.gpg] http://m.test/debian bookworm main contrib\ndeb http://vendor.test/node nodistro main\ndeb cdrom:[x]/ bookworm main\ndeb http://s.test/security bookworm-security main\n',
    );
    expect(narrowSources(sources, bookworm, true)).toBe(
      [
        'Types: deb\nURIs: http://m.test/debian\nSuites: bookworm\nComponents: main\nsigned-by: /k.gpg\n',
        'Types: deb\nURIs: http://s.test/security\nSuites: bookworm-security\nComponents: main\n',
        'Types: deb\nURIs: http://m.test/debian\nSuites: bookworm-backports\nComponents: main\nsigned-by: /k.gpg\n',
      ].join('\n'),
    );
    expect(narrowSources(sources, { suite: 'trixie', isDebianItself: true }, false)).toBeUndefined();
  });
});

describe('the release', () => {
  function write(name: string, text: string): string {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  }

  test('is named by os-release: Debian, Ubuntu and what is built on them, nothing else', () => {
    expect(readDebianRelease(write('debian', 'ID=debian\nVERSION_CODENAME=bookworm\n'))).toEqual(bookworm);
    expect(readDebianRelease(write('ubuntu', 'ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\nUBUNTU_CODENAME=noble\n'))).toEqual({
      suite: 'noble',
      isDebianItself: false,
    });
    expect(readDebianRelease(write('mint', 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n'))).toEqual({
      suite: 'noble',
      isDebianItself: false,
    });
    expect(readDebianRelease(write('alpine', 'ID=alpine\nVERSION_ID=3.21\n'))).toBeUndefined();
    expect(readDebianRelease(join(folder, 'nothing'))).toBeUndefined();
  });
});
