import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeSettings, readInstance, removeInstance, writeInstance } from '../src/instance.js';
import { createTeardown, Interrupted } from '../src/teardown.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();

test('what is running is written for the other processes under the names they read, and taken away again', () => {
  const file = join(folder, 'home', 'instance.json');
  expect(readInstance(file)).toBeUndefined();
  const settings = describeSettings({
    databaseUrl: 'postgres://u:p@127.0.0.1:15432/onward',
    valkeyUrl: 'redis://127.0.0.1:16379',
    smtpUrl: 'smtp://127.0.0.1:1025',
    mailFrom: 'Onward <onward@example.test>',
    publicUrl: 'http://127.0.0.1:3001',
    ports: { http: 3001, rpc: 3104 },
    egressAllow: '127.0.0.1:8026',
    firstKeyFile: '/home/first-api-key',
  });
  writeInstance(file, { settings, inboxUrl: 'http://127.0.0.1:8025', webhookSinkUrl: undefined });
  expect(readInstance(file)).toMatchObject({
    pid: process.pid,
    inboxUrl: 'http://127.0.0.1:8025',
    settings: { PORT: '3001', BACKEND_MICROSERVICE_TARGET_PORT: '3104', EGRESS_ALLOW: '127.0.0.1:8026' },
  });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  removeInstance(file);
  expect(existsSync(file)).toBe(false);
});

test('a stop takes down newest first, goes on past a failure, and takes down what comes up during it', async () => {
  const log: string[] = [];
  const teardown = createTeardown((line) => log.push(line));
  await teardown.add(async () => log.push('first'));
  await teardown.add(async () => {
    throw new Error('second would not stop');
  });
  await teardown.add(async () => log.push('third'));
  await teardown.run();
  await expect(teardown.add(async () => log.push('late'))).rejects.toBeInstanceOf(Interrupted);
  await teardown.run();
  expect(log).toEqual(['third', 'second would not stop', 'first', 'late']);
});
