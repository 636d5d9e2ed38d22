import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { NonceMemory, WINDOW_MS } from '../src/nonce-memory.js';
import { type Packet, readAnswer, readPacket, sign, verify } from '../src/signing.js';

const secret = 'a secret of thirty-two characters';
const NOW = 1_800_000_000_000;

function signed(over: Partial<{ secret: string; pattern: string; body: string; id: string }> = {}, now = NOW): Packet {
  return sign({ secret, pattern: 'mail.message.begin', body: '{"a":1}', id: '1', ...over }, now);
}

function judge(packet: Packet, { now = NOW, nonces = new NonceMemory() } = {}): string {
  return verify(packet, { secrets: [secret], now, nonces });
}

describe('a packet', () => {
  test('signed with the secret is taken', () => {
    expect(judge(signed())).toBe('ok');
  });

  test('signed with another secret is not', () => {
    expect(judge(signed({ secret: `${secret}.` }))).toBe('unauthenticated');
  });

  test('signed with either of two secrets is taken, and with a third is not', () => {
    const previous = 'the secret that is being replaced';
    const nonces = new NonceMemory();
    const judgeUnderBoth = (packet: Packet) => verify(packet, { secrets: [secret, previous], now: NOW, nonces });
    expect([signed(), signed({ secret: previous }), signed({ secret: `${secret}.` })].map(judgeUnderBoth)).toEqual(['ok', 'ok', 'unauthenticated']);
    expect(nonces.size).toBe(2);
  });

  test('is taken once, whichever secret signed its nonce before', () => {
    const previous = 'the secret that is being replaced';
    const nonces = new NonceMemory();
    const packet = signed({ secret: previous });
    expect(verify(packet, { secrets: [secret, previous], now: NOW, nonces })).toBe('ok');
    expect(verify(packet, { secrets: [previous], now: NOW, nonces })).toBe('unauthenticated');
  });

  test('is not taken when there is no secret', () => {
    expect(verify(signed(), { secrets: [], now: NOW, nonces: new NonceMemory() })).toBe('unauthenticated');
  });

  test.each<[string, (packet: Packet) => Packet]>([
    ['id', (packet) => ({ ...packet, id: '2' })],
    ['pattern', (packet) => ({ ...packet, pattern: 'mail.message.end' })],
    ['body', (packet) => ({ ...packet, body: '{"a":2}' })],
    ['time', (packet) => ({ ...packet, auth: { ...packet.auth, at: NOW + 1 } })],
    ['nonce', (packet) => ({ ...packet, auth: { ...packet.auth, nonce: 'other' } })],
    ['mac', (packet) => ({ ...packet, auth: { ...packet.auth, mac: '0'.repeat(64) } })],
    ['length of the mac', (packet) => ({ ...packet, auth: { ...packet.auth, mac: packet.auth.mac.slice(0, 62) } })],
  ])('with another %s than was signed is not taken', (_field, change) => {
    expect(judge(change(signed()))).toBe('unauthenticated');
  });

  test('is taken up to 30 s before and after its time and no longer', () => {
    for (const offMs of [-WINDOW_MS, 0, WINDOW_MS]) expect(judge(signed(), { now: NOW + offMs })).toBe('ok');
    for (const offMs of [-WINDOW_MS - 1, WINDOW_MS + 1]) expect(judge(signed(), { now: NOW + offMs })).toBe('unauthenticated');
  });

  test('is taken once', () => {
    const nonces = new NonceMemory();
    const packet = signed();
    expect(judge(packet, { nonces })).toBe('ok');
    for (const offMs of [0, 1, WINDOW_MS]) expect(judge(packet, { nonces, now: NOW + offMs })).toBe('unauthenticated');
  });

  test('that is refused leaves its nonce free', () => {
    const nonces = new NonceMemory();
    const packet = signed();
    judge({ ...packet, body: 'other' }, { nonces });
    expect(nonces.size).toBe(0);
    expect(judge(packet, { nonces })).toBe('ok');
  });

  test('of the same call is signed anew each time', () => {
    expect(signed().auth.nonce).not.toBe(signed().auth.nonce);
  });
});

describe('the memory of nonces', () => {
  test('knows a packet from a clock that runs ahead for as long as it is valid', () => {
    const nonces = new NonceMemory();
    const packet = signed({}, NOW + WINDOW_MS);
    expect(judge(packet, { nonces, now: NOW })).toBe('ok');
    for (let atMs = NOW + 1_000; atMs <= NOW + 2 * WINDOW_MS; atMs += 1_000) expect(judge(packet, { nonces, now: atMs })).toBe('unauthenticated');
  });

  test('forgets what can no longer be sent', () => {
    const nonces = new NonceMemory();
    for (let second = 0; second < 600; second++) {
      const now = NOW + second * 1_000;
      expect(nonces.remember(randomUUID(), now, now)).toBe(true);
    }
    expect(nonces.size).toBeLessThanOrEqual(76);
    expect(nonces.size).toBeGreaterThanOrEqual(60);
  });

  test('stays within its capacity and still takes no packet twice', () => {
    const nonces = new NonceMemory({ capacity: 80 });
    const sent = Array.from({ length: 1_000 }, (_, n) => ({ nonce: `n${n}`, at: NOW + n }));
    for (const { nonce, at } of sent) {
      expect(nonces.remember(nonce, at, at)).toBe(true);
      expect(nonces.size).toBeLessThanOrEqual(80);
    }
    for (const { nonce, at } of sent) expect(nonces.remember(nonce, at, NOW + 1_000)).toBe(false);
  });
});

describe('what arrives', () => {
  test('is a packet only with exactly its fields', () => {
    const packet = signed();
    expect(readPacket(JSON.parse(JSON.stringify(packet)))).toEqual(packet);
    const { auth, ...withoutAuth } = packet;
    const wrong: unknown[] = [
      null,
      'text',
      [],
      {},
      withoutAuth,
      { ...packet, extra: 1 },
      { ...packet, id: 1 },
      { ...packet, id: '' },
      { ...packet, id: 'x'.repeat(65) },
      { ...packet, pattern: { cmd: 'x' } },
      { ...packet, pattern: 'a\nb' },
      { ...packet, body: { a: 1 } },
      { ...packet, auth: { ...auth, at: '1' } },
      { ...packet, auth: { ...auth, at: 1.5 } },
      { ...packet, auth: { ...auth, nonce: 'a\n1' } },
      { ...packet, auth: { ...auth, mac: auth.mac.toUpperCase() } },
      { ...packet, auth: { ...auth, extra: 1 } },
    ];
    for (const message of wrong) expect(readPacket(message)).toBeNull();
  });

  test('is an answer only with an id and either a reply or an error of the catalogue', () => {
    expect(readAnswer({ id: 'a', reply: { kind: 'x' } })).toEqual({ id: 'a', reply: { kind: 'x' } });
    expect(readAnswer({ id: 'a', error: { code: 'draining', detail: '' } })).toEqual({ id: 'a', error: { code: 'draining', detail: '' } });
    for (const message of [
      { id: 'a' },
      { reply: 1 },
      { id: 'a', reply: 1, error: { code: 'draining', detail: '' } },
      { id: 'a', error: { code: 'odd', detail: '' } },
    ]) {
      expect(readAnswer(message)).toBeNull();
    }
  });
});
