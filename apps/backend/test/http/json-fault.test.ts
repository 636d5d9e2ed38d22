import fc from 'fast-check';
import { expect, it } from 'vitest';
import { findJsonFault } from '../../src/http/json-fault.js';
import { parseJson } from '../../src/http/parse-json.js';
import { Problem } from '../../src/http/problem.js';

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

it('finds a fault exactly when JSON.parse refuses the text', () => {
  const damaged = fc
    .tuple(
      fc.json({ maxDepth: 4 }),
      fc.nat(),
      fc.constantFrom('', '"', '{', '}', '[', ']', ',', ':', '\\', '\n', '0', '.', 'e', '-', 't', ' ', '\u0001'),
      fc.boolean(),
    )
    .map(([text, at, piece, isReplaced]) => {
      const place = at % (text.length + 1);
      return text.slice(0, place) + piece + text.slice(isReplaced ? place + 1 : place);
    });
  fc.assert(
    fc.property(damaged, (text) => (findJsonFault(text) === null) === isJson(text)),
    { numRuns: 3_000 },
  );
});

it('the text up to a fault is the beginning of some JSON', () => {
  expect(findJsonFault('{"a": [1, 2, {"b": tru]}')).toEqual({ line: 1, column: 20, found: '"t"' });
  expect(findJsonFault('{"a":\n  01}')).toEqual({ line: 2, column: 4, found: '"1"' });
  expect(findJsonFault('')).toEqual({ line: 1, column: 1, found: 'the end of the text' });
});

it('gives plain data back as JSON.parse does, keys that objects inherit included', () => {
  const text = '{"constructor":1,"toString":{"prototype":[null,true,1.5,"é"]}}';
  expect(parseJson(text)).toEqual(JSON.parse(text));
});

it.each(['{"__proto__":1}', '[{"a":{"__proto__":{}}}]', '{"\\u005f_proto__":1}'])('refuses the key __proto__ however it is written: %s', (text) => {
  expect(() => parseJson(text)).toThrow(Problem);
});
