import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tellOnce } from '../src/tell-once.js';
import { makeTemporaryFolder } from './temporary-folder.js';

test('how things stand is told at the first start and whenever it has changed, and again when the record is lost', () => {
  const file = join(makeTemporaryFolder(), 'told.json');
  const startWith = (...lines: readonly string[]): readonly string[] => {
    const heard: string[] = [];
    const tell = tellOnce(file, (line) => heard.push(line));
    for (const line of lines) tell(line);
    return heard;
  };
  expect(startWith('database: 18', 'queue store: 8')).toEqual(['database: 18', 'queue store: 8']);
  expect(startWith('database: 18', 'queue store: 8')).toEqual([]);
  expect(startWith('database: 18', 'queue store: 9')).toEqual(['queue store: 9']);
  expect(startWith('database: 18', 'queue store: 8')).toEqual(['queue store: 8']);
  writeFileSync(file, '{ cut');
  expect(startWith('database: 18')).toEqual(['database: 18']);
});
