/**
 * Reads where this machine gets its Debian or Ubuntu packages from, and writes the few of them we need for a private look.
 *
 * Understands both formats of sources.list(5): one-line (`deb [options] uri suite component…`) and deb822 stanzas. Options
 * such as Signed-By are carried over unread, so packages are checked against the keys the machine already trusts.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One enabled source of binary packages. `fields` are the deb822 fields besides those named here, in lower case. */
export type AptSource = {
  readonly uris: readonly string[];
  readonly suites: readonly string[];
  readonly components: readonly string[];
  readonly fields: Readonly<Record<string, string>>;
};

/** What os-release(5) says of this system, or undefined when it is no relative of Debian. `suite` is the release's name. */
export type DebianRelease = { readonly suite: string; readonly isDebianItself: boolean };

export function readDebianRelease(file = '/etc/os-release'): DebianRelease | undefined {
  if (!existsSync(file)) return undefined;
  const values = new Map<string, string>();
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [, name, value] = /^([A-Z_]+)=["']?(.*?)["']?$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) values.set(name, value);
  }
  const family = `${values.get('ID') ?? ''} ${values.get('ID_LIKE') ?? ''}`.split(' ');
  const suite = values.get('UBUNTU_CODENAME') ?? values.get('DEBIAN_CODENAME') ?? values.get('VERSION_CODENAME');
  if (suite === undefined || !(family.includes('debian') || family.includes('ubuntu'))) return undefined;
  return { suite, isDebianItself: !family.includes('ubuntu') };
}

/** Every enabled `deb` source under /etc/apt. Files that cannot be read are passed over. */
export function readAptSources(folder = '/etc/apt'): AptSource[] {
  const parts = join(folder, 'sources.list.d');
  const files = existsSync(parts)
    ? readdirSync(parts)
        .sort()
        .map((name) => join(parts, name))
    : [];
  return [join(folder, 'sources.list'), ...files].flatMap((file) => {
    if (file.endsWith('.list')) return parseOneLine(readText(file));
    return file.endsWith('.sources') ? parseStanzas(readText(file)) : [];
  });
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

const ONE_LINE_NAMES: Readonly<Record<string, string>> = { arch: 'architectures', lang: 'languages', target: 'targets' };

export function parseOneLine(text: string): AptSource[] {
  return text.split('\n').flatMap((line): AptSource[] => {
    const [, options = '', uri, suite, components = ''] = /^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+[^#\s]+)*)/.exec(line) ?? [];
    if (uri === undefined || suite === undefined) return [];
    const fields: Record<string, string> = {};
    for (const option of options.split(/\s+/)) {
      const [, name, value] = /^([\w-]+)=(.*)$/.exec(option) ?? [];
      if (name !== undefined && value !== undefined) fields[ONE_LINE_NAMES[name.toLowerCase()] ?? name.toLowerCase()] = value.replaceAll(',', ' ');
    }
    return [{ uris: [uri], suites: [suite], components: words(components), fields }];
  });
}

export function parseStanzas(text: string): AptSource[] {
  const withoutComments = text
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n');
  return withoutComments.split(/\n\s*\n/).flatMap((stanza): AptSource[] => {
    const { types = '', uris = '', suites = '', components = '', enabled = 'yes', ...fields } = readFields(stanza);
    if (!words(types).includes('deb') || /^(no|false|off|0|without|disable)$/i.test(enabled.trim())) return [];
    return [{ uris: words(uris), suites: words(suites), components: words(components), fields }];
  });
}

/** A field goes on over the lines that begin with a space (an embedded key, say). */
function readFields(stanza: string): Record<string, string> {
  const fields: Record<string, string> = {};
  let current: string | undefined;
  for (const line of stanza.split('\n')) {
    const [, name, value] = /^([\w-]+)\s*:\s?(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) {
      current = name.toLowerCase();
      fields[current] = value;
    } else if (current !== undefined && /^\s/.test(line)) fields[current] += `\n${line}`;
  }
  return fields;
}

/**
 * The machine's own sources cut down to its release, in deb822 form, or undefined when none fits.
 * With `addBackports` the release's backports are asked from the same place.
 */
export function narrowSources(sources: readonly AptSource[], { suite, isDebianItself }: DebianRelease, addBackports: boolean): string | undefined {
  const names = [suite, ...(isDebianItself ? ['oldstable', 'stable', 'testing', 'unstable', 'sid'] : [])];
  const isOurs = (name: string): boolean => names.some((own) => [own, `${own}-updates`, `${own}-security`].includes(name));
  const stanzas: string[] = [];
  let home: AptSource | undefined;
  for (const source of sources) {
    const uris = source.uris.filter((uri) => !uri.startsWith('cdrom:'));
    const suites = source.suites.filter(isOurs);
    const components = source.components.filter((name) => name === 'main' || name === 'universe');
    if (uris.length === 0 || suites.length === 0 || components.length === 0) continue;
    const narrowed = { ...source, uris, suites, components };
    if (home === undefined && suites.some((name) => names.includes(name))) home = narrowed;
    stanzas.push(renderStanza(narrowed));
  }
  if (home === undefined) return undefined;
  if (addBackports) stanzas.push(renderStanza({ ...home, suites: [`${suite}-backports`] }));
  return stanzas.join('\n');
}

function renderStanza({ uris, suites, components, fields }: AptSource): string {
  const named = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`);
  return `Types: deb\nURIs: ${uris.join(' ')}\nSuites: ${suites.join(' ')}\nComponents: ${components.join(' ')}\n${named.join('')}`;
}

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}
