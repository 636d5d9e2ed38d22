import { describe, expect, it } from 'vitest';
import { readSettings } from '../../src/settings.js';

const ENV = {
  DATABASE_URL: 'postgres://127.0.0.1/onward',
  VALKEY_URL: 'redis://127.0.0.1',
  BACKEND_MICROSERVICE_SECRET: 'x'.repeat(32),
  ONWARD_SECRET_KEY: 'y'.repeat(32),
};

describe('AUTOMATIONS_NOTIFY_TO', () => {
  it.each([
    [undefined, []],
    ['', []],
    ['ops@example.test', ['ops@example.test']],
    [' ops@example.test , b@example.test,', ['ops@example.test', 'b@example.test']],
  ])('%j names %j', (text, addresses) => {
    expect(readSettings({ ...ENV, ...(text === undefined ? {} : { AUTOMATIONS_NOTIFY_TO: text }) }).notifyTo).toEqual(addresses);
  });

  it('with something that is no address stops the start and is named', () => {
    expect(() => readSettings({ ...ENV, AUTOMATIONS_NOTIFY_TO: 'ops@example.test,nobody' })).toThrow('AUTOMATIONS_NOTIFY_TO');
  });
});
