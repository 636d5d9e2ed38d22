import { expect, test } from 'vitest';
import { OneAtATime } from '../../src/runtime/one-at-a-time.js';

const turns = async () => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

test('of two with one key the second begins when the first has ended, others at once', async () => {
  const oneAtATime = new OneAtATime();
  const begun: string[] = [];
  let end = (_answer: string): void => undefined;
  const first = new Promise<string>((resolve) => {
    end = resolve;
  });
  const work = (name: string, ends: Promise<string>) => () => {
    begun.push(name);
    return ends;
  };
  const answers = [
    oneAtATime.do('run', work('first', first)),
    oneAtATime.do('run', work('second', Promise.resolve('second'))),
    oneAtATime.do('other', work('other', Promise.resolve('other'))),
  ];
  await turns();
  expect(begun).toEqual(['first', 'other']);
  end('first');
  expect(await Promise.all(answers)).toEqual(['first', 'second', 'other']);
  expect(begun).toEqual(['first', 'other', 'second']);
});

test('what one throws is thrown at its asker, and the next begins', async () => {
  const oneAtATime = new OneAtATime();
  const fault = new Error('of the first');
  const [first, second] = await Promise.allSettled([oneAtATime.do('run', () => Promise.reject(fault)), oneAtATime.do('run', () => Promise.resolve('second'))]);
  expect(first).toEqual({ status: 'rejected', reason: fault });
  expect(second).toEqual({ status: 'fulfilled', value: 'second' });
});
