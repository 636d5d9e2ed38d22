import type { SecretValue } from '@onward/contracts/outbound';
import { expect, test } from 'vitest';
import { openSecrets, sealSecrets } from '../src/sealed-secrets.js';

const OLD = 'the shared secret of last year, long enough';
const NEW = 'the shared secret of this year, long enough';
const STEP = '0198c0de-0000-7000-8000-000000000000|3';
const VALUES: SecretValue[] = [{ placeholder: `onws${'0a'.repeat(20)}`, name: 'token', value: 'canary ✓ "value"', origins: ['https://api.example.test'] }];

const seal = (...secrets: string[]) => sealSecrets(VALUES, { secrets, step: STEP });

test('what was sealed opens for the holder of the shared secret and shows nothing before', () => {
  const sealed = seal(NEW);
  expect(openSecrets(sealed, { secret: NEW, step: STEP })).toEqual(VALUES);
  const bytes = sealed.map((one) => Buffer.from(one, 'base64url').toString('latin1')).join();
  expect(`${sealed.join()}${bytes}`).not.toMatch(/canary|token|onws|example/);
});

test('while the shared secret is changed it opens for a worker with either', () => {
  const sealed = seal(NEW, OLD);
  expect(sealed).toHaveLength(2);
  expect(openSecrets(sealed, { secret: NEW, step: STEP })).toEqual(VALUES);
  expect(openSecrets(sealed, { secret: OLD, step: STEP })).toEqual(VALUES);
});

test('another secret and another step open nothing', () => {
  expect(openSecrets(seal(NEW), { secret: OLD, step: STEP })).toBeNull();
  expect(openSecrets(seal(NEW), { secret: NEW, step: STEP.replace('|3', '|4') })).toBeNull();
});

test('a change of any byte, and an end cut off, open nothing', () => {
  const [sealed = ''] = seal(NEW);
  const bytes = Buffer.from(sealed, 'base64url');
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(openSecrets([changed.toString('base64url')], { secret: NEW, step: STEP }), `byte ${at}`).toBeNull();
  }
  for (const length of [0, 11, 27, 28, bytes.length - 1]) {
    expect(openSecrets([bytes.subarray(0, length).toString('base64url')], { secret: NEW, step: STEP }), `${length} bytes`).toBeNull();
  }
});

test('the same values are never sealed to the same bytes', () => {
  expect(seal(NEW)[0]).not.toBe(seal(NEW)[0]);
});

test('a request without secrets has nothing to open', () => {
  expect(openSecrets([], { secret: NEW, step: STEP })).toEqual([]);
});
