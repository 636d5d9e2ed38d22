import { maskCredentialsInText } from '@onward/contracts/credential-names';
import type { Failure } from '@onward/contracts/outcome';

/** What a notice tells of. `link` is where the API shows the run. */
export type NoticeFacts = {
  workflow: string;
  runId: string;
  contact: string | null;
  state: 'failed' | 'dead_lettered';
  node: string;
  nodeName: string | null;
  failure: Failure;
  at: Date;
  link: string;
};

const SENTENCES = {
  failed: 'ended failed: no retry can cure what went wrong.',
  dead_lettered: 'was given up after its last attempt; it can be sent back from where it stopped.',
} as const satisfies Record<NoticeFacts['state'], string>;

/** Words the mail about a run that ended badly. Names come from people and hosts, so each part is made safe for where it stands. */
export function writeNotice(facts: NoticeFacts): { subject: string; html: string; text: string } {
  const { workflow, runId, contact, state, node, nodeName, failure, at, link } = facts;
  const intro = `A run of "${oneLine(workflow)}" ${SENTENCES[state]}`;
  const lines: [string, string][] = [
    ['Workflow', oneLine(workflow)],
    ['Run', runId],
    ...(contact === null ? [] : [['Contact', oneLine(contact)] as [string, string]]),
    ['Node', nodeName === null ? node : `${oneLine(nodeName)} (${node})`],
    ['Error', `${failure.code}: ${maskCredentialsInText(oneLine(failure.message))}`],
    ['When', at.toISOString()],
  ];
  return {
    subject: oneLine(
      `"${workflow}" ${state === 'failed' ? 'failed' : 'was given up'} at ${nodeName ?? node}${contact === null ? '' : ` for ${contact}`}`,
    ).slice(0, 200),
    text: [
      intro,
      '',
      ...lines.map(([name, value]) => `${name}: ${value}`),
      '',
      `What happened: GET ${link}`,
      `Send it back from there: POST ${link}/replay`,
      '',
    ].join('\n'),
    html: [
      `<p>${escapeHtml(intro)}</p>`,
      `<table>${lines.map(([name, value]) => `<tr><th align="left">${name}</th><td>${escapeHtml(value)}</td></tr>`).join('')}</table>`,
      `<p>What happened: <code>GET ${escapeHtml(link)}</code><br>Send it back from there: <code>POST ${escapeHtml(link)}/replay</code></p>`,
    ].join('\n'),
  };
}

/** Line breaks and control characters become blanks. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
