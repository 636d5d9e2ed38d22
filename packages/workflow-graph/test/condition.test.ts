import type { Json } from '@onward/contracts/json';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { evaluateCondition, evaluateSeen, evaluateTest, hasValue, lookUp, testValue } from '../src/condition.js';
import { type ConditionTest, conditionConfigSchema, type Operator } from '../src/graph.js';
import { around, condition, publish } from './graphs.js';

const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>;
const contact = (attributes: Record<string, Json>) => ({ contact: { attributes } });

/** Is the test of `attributes.k` met? */
function met(attributes: Record<string, Json>, op: Operator, value?: Json, ignoreCase?: boolean, k = 'k'): boolean {
  const written: ConditionTest = { field: `contact.attributes.${k}`, op, ...(value === undefined ? {} : { value }), ...(ignoreCase ? { ignoreCase } : {}) };
  return evaluateTest(written, contact(attributes)).result;
}

describe('F01: negative operators on a missing attribute', () => {
  test.each<Record<string, Json>>([{}, { k: null }])('F01: with %j the negatives take true and the positives false', (attributes) => {
    expect(met(attributes, 'not_equals', 'pro')).toBe(true);
    expect(met(attributes, 'not_contains', 'pro')).toBe(true);
    expect(met(attributes, 'equals', 'pro')).toBe(false);
    expect(met(attributes, 'contains', 'pro')).toBe(false);
  });

  test.each([
    ['equals', 'not_equals'],
    ['contains', 'not_contains'],
    ['exists', 'not_exists'],
  ] as const)('F01: for the same input exactly one of %s and %s holds, and none throws', (op, notOp) => {
    fc.assert(
      fc.property(fc.option(json, { nil: undefined }), fc.option(json, { nil: undefined }), fc.boolean(), (value, operand, ignoreCase) => {
        const rest = { ignoreCase, ...(operand === undefined ? {} : { value: operand }) };
        expect(testValue({ op, ...rest }, value)).toBe(!testValue({ op: notOp, ...rest }, value));
      }),
    );
  });
});

describe('F02: exists versus empty, null, false, zero', () => {
  const table: [string, Record<string, Json>, boolean][] = [
    ['absent', {}, false],
    ['null', { k: null }, false],
    ['the empty text', { k: '' }, false],
    ['blank text', { k: '  ' }, false],
    ['zero', { k: 0 }, true],
    ['false', { k: false }, true],
    ['the empty list', { k: [] }, false],
    ['the empty object', { k: {} }, false],
    ['"null"', { k: 'null' }, true],
    ['"undefined"', { k: 'undefined' }, true],
  ];
  test.each(table)('F02: %s', (_, attributes, exists) => {
    expect(met(attributes, 'exists')).toBe(exists);
    expect(met(attributes, 'not_exists')).toBe(!exists);
  });
});

describe('F03: number against string', () => {
  test.each([
    [10, true],
    ['10', true],
    [JSON.parse('10.0') as number, true],
    ['10.0', false],
    [' 10', false],
    ['1e1', false],
    ['0x0A', false],
    [true, false],
  ])('F03: the score %j equals "10": %j', (score, equal) => {
    expect(met({ k: score }, 'equals', '10')).toBe(equal);
    expect(met({ k: score }, 'equals', 10)).toBe(equal);
  });

  test('F03: a boolean equals its text, leading zeros count, and large ids keep every digit', () => {
    expect(met({ k: true }, 'equals', 'true')).toBe(true);
    expect(met({ k: false }, 'equals', 'true')).toBe(false);
    expect(met({ k: '007' }, 'equals', '7')).toBe(false);
    expect(met({ k: '9007199254740993' }, 'equals', '9007199254740992')).toBe(false);
    expect(met({ k: '9007199254740993' }, 'equals', '9007199254740993')).toBe(true);
  });

  test('F03: case counts unless it is ignored', () => {
    expect(met({ k: 'Pro' }, 'equals', 'pro')).toBe(false);
    expect(met({ k: 'Pro' }, 'equals', 'pRO', true)).toBe(true);
  });

  test('a number equals its JSON text, whatever the number', () => {
    fc.assert(fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (n) => met({ k: n }, 'equals', JSON.stringify(n))));
  });
});

describe('F04: contains: list member, substring, non-text', () => {
  test.each([
    [['non-vip'], false],
    [['vip'], true],
    [['VIP'], false],
    ['a vip guest', true],
    [42, false],
    [null, false],
    [[['vip']], false],
    [{ vip: true }, false],
  ] as [Json, boolean][])('F04: %j contains "vip": %j', (tags, contains) => {
    expect(met({ k: tags }, 'contains', 'vip')).toBe(contains);
  });

  test('F04: an absent list contains nothing, and 42 contains "4"', () => {
    expect(met({}, 'contains', 'vip')).toBe(false);
    expect(met({ k: 42 }, 'contains', '4')).toBe(true);
    expect(met({ k: [42] }, 'contains', '42')).toBe(true);
    expect(met({ k: [42] }, 'contains', '4')).toBe(false);
  });

  test('F04: the case rule is the same for text and list', () => {
    for (const value of ['a VIP guest', ['VIP']]) {
      expect(met({ k: value }, 'contains', 'vip')).toBe(false);
      expect(met({ k: value }, 'contains', 'vip', true)).toBe(true);
    }
  });

  test('F04: nothing contains an empty operand, and publishing refuses it with the field', () => {
    expect(met({ k: 'abc' }, 'contains', '')).toBe(false);
    expect(met({ k: [] }, 'contains', '')).toBe(false);
    expect(met({ k: [''] }, 'contains', '')).toBe(false);
    for (const op of ['contains', 'not_contains']) {
      const { defects } = publish(around(condition('c', { field: 'contact.attributes.k', op, value: '' }), 'true', 'false'));
      expect(defects).toMatchObject([{ code: 'operand_empty', node: 'c', path: 'config.tests.0.value' }]);
    }
  });
});

describe('F06: prototype names as keys', () => {
  test.each(['constructor', 'toString', '__proto__', '__proto__.polluted', 'hasOwnProperty', 'constructor.prototype', 'constructor.name'])(
    'F06: %s does not exist in a scope that does not hold it',
    (field) => {
      const scope = contact({});
      expect(evaluateTest({ field, op: 'exists' }, scope).result).toBe(false);
      expect(evaluateTest({ field: `contact.attributes.${field}`, op: 'exists' }, scope).result).toBe(false);
      expect(evaluateTest({ field: `contact.attributes.${field}`, op: 'exists' }, contact({ name: 'x' })).result).toBe(false);
    },
  );

  test('F06: an own attribute named toString is found', () => {
    expect(met({ toString: 'x' } as unknown as Record<string, Json>, 'equals', 'x', false, 'toString')).toBe(true);
  });

  test('F06: a body that carries __proto__ pollutes nothing and is looked up as its own key', () => {
    const body = JSON.parse('{"__proto__":{"polluted":"1"},"constructor":{"prototype":{"polluted":"1"}}}') as Json;
    expect(lookUp(body, '__proto__.polluted')).toBe('1');
    expect(lookUp({}, '__proto__.polluted')).toBeUndefined();
    expect(({} as { polluted?: string }).polluted).toBeUndefined();
  });
});

describe('looking up', () => {
  test('a path goes through objects and list indices', () => {
    expect(lookUp({ items: [{ sku: 'a' }, { sku: 'b' }] }, 'items.1.sku')).toBe('b');
    expect(lookUp({ a: { '': 1 } }, 'a')).toEqual({ '': 1 });
  });

  test.each(['items.length', 'items.-1', 'items.01', 'items.2', 'text.0', 'text.length', 'count.toFixed', 'nothing.x', ''])('%j finds nothing', (path) => {
    expect(lookUp({ items: ['a', 'b'], text: 'abc', count: 1, nothing: null }, path)).toBeUndefined();
  });

  test('no getter runs and no hidden property is seen', () => {
    const scope = Object.defineProperty(
      {
        get trap(): never {
          throw new Error('a getter ran');
        },
      },
      'hidden',
      { value: 1, enumerable: false },
    );
    expect(lookUp(scope, 'trap')).toBeUndefined();
    expect(lookUp(scope, 'hidden')).toBeUndefined();
  });

  test('a value is found where JSON put it, and nothing throws on any scope and path', () => {
    fc.assert(fc.property(json, (value) => Object.is(lookUp({ a: [value] }, 'a.0'), value)));
    fc.assert(fc.property(json, fc.string(), (scope, path) => void lookUp(scope, path)));
  });
});

describe('sameness', () => {
  test('lists and objects are the same member by member, keys in any order', () => {
    expect(met({ k: { a: 1, b: [true, null] } }, 'equals', { b: ['true', null], a: '1' })).toBe(true);
    expect(met({ k: { a: 1 } }, 'equals', { a: 1, b: 2 })).toBe(false);
    expect(met({ k: { a: 1 } }, 'equals', { b: 1 })).toBe(false);
    expect(met({ k: ['a', 'b'] }, 'equals', ['b', 'a'])).toBe(false);
    expect(met({ k: ['a'] }, 'equals', { 0: 'a' })).toBe(false);
    expect(met({ k: ['a'] }, 'equals', 'a')).toBe(false);
  });

  test('every value is the same as its own copy', () => {
    fc.assert(fc.property(json, (value) => testValue({ op: 'equals', value: structuredClone(value) }, value)));
  });

  test('values nested 100,000 deep are compared without running out of stack', () => {
    const nest = (bottom: Json) => {
      let value = bottom;
      for (let i = 0; i < 100_000; i++) value = [value];
      return value;
    };
    expect(testValue({ op: 'equals', value: nest(1) }, nest('1'))).toBe(true);
    expect(testValue({ op: 'equals', value: nest(1) }, nest(2))).toBe(false);
    expect(testValue({ op: 'contains', value: nest(1) }, [nest(1)])).toBe(true);
    expect(hasValue(nest(1))).toBe(true);
  });
});

describe('conditions of several tests', () => {
  const tests: ConditionTest[] = [
    { field: 'a', op: 'equals', value: 1 },
    { field: 'b', op: 'exists' },
  ];
  test.each([
    [{ a: 1, b: 2 }, true, true],
    [{ a: 1 }, false, true],
    [{ b: 2 }, false, true],
    [{}, false, false],
  ])('%j: all %j, any %j', (scope, all, any) => {
    expect(evaluateCondition({ tests }, scope).result).toBe(all);
    expect(evaluateCondition({ match: 'all', tests }, scope).result).toBe(all);
    expect(evaluateCondition({ match: 'any', tests }, scope).result).toBe(any);
  });

  test('what was seen is kept for every test, also when the first decides', () => {
    expect(evaluateCondition({ match: 'any', tests }, { a: 1, b: ['x'] }).seen).toEqual([
      { field: 'a', value: 1 },
      { field: 'b', value: ['x'] },
    ]);
    expect(evaluateCondition({ tests }, {}).seen).toEqual([
      { field: 'a', value: null },
      { field: 'b', value: null },
    ]);
  });

  test('deciding again from what was seen gives the same result, for any values', () => {
    const op = fc.constantFrom<Operator>('equals', 'not_equals', 'contains', 'not_contains', 'exists', 'not_exists');
    fc.assert(
      fc.property(
        fc.array(fc.record({ op, value: json, ignoreCase: fc.boolean() }), { minLength: 1, maxLength: 4 }),
        fc.constantFrom('all', 'any'),
        fc.array(json),
        (drawn, match, scope) => {
          const config = { match, tests: drawn.map((test, i) => ({ ...test, field: String(i) })) } as const;
          const { result, seen } = evaluateCondition(config, scope);
          expect(evaluateSeen(config, JSON.parse(JSON.stringify(seen)))).toBe(result);
        },
      ),
    );
  });

  test('the record of other tests decides nothing', () => {
    expect(evaluateSeen({ tests }, [{ field: 'a', value: 1 }])).toBeNull();
    expect(
      evaluateSeen({ tests }, [
        { field: 'a', value: 1 },
        { field: 'c', value: 1 },
      ]),
    ).toBeNull();
  });
});

describe('the config of a condition', () => {
  test.each(['a', 'contact.attributes.first-name', 'event.items.0.sku', 'contact.attributes.Größe in cm', '__proto__.polluted'])(
    'the path %j is taken',
    (field) => {
      expect(conditionConfigSchema.safeParse({ tests: [{ field, op: 'exists' }] }).success).toBe(true);
    },
  );
  test.each(['', '.', 'a.', '.a', 'a..b', ' a', 'a. b', 'a .b', '{{a}}', 'a[0]', 'a\u0000b'])('the path %j is refused', (field) => {
    const { defects } = publish(around(condition('c', { field, op: 'exists' }), 'true', 'false'));
    expect(defects).toMatchObject([{ code: 'field_path_invalid', node: 'c', path: 'config.tests.0.field' }]);
  });
  test('a comparison without a value is refused, an existence test needs none', () => {
    for (const op of ['equals', 'not_equals', 'contains', 'not_contains'])
      expect(conditionConfigSchema.safeParse({ tests: [{ field: 'a', op }] }).success).toBe(false);
    expect(conditionConfigSchema.safeParse({ tests: [{ field: 'a', op: 'not_exists' }] }).success).toBe(true);
    expect(conditionConfigSchema.safeParse({ tests: [{ field: 'a', op: 'equals', value: '' }] }).success).toBe(true);
  });
  test('contains takes no list or object to compare with', () => {
    for (const value of [['vip'], { a: 1 }]) expect(conditionConfigSchema.safeParse({ tests: [{ field: 'a', op: 'contains', value }] }).success).toBe(false);
    expect(conditionConfigSchema.safeParse({ tests: [{ field: 'a', op: 'equals', value: ['vip'] }] }).success).toBe(true);
  });
  test('1 to 50 tests are taken', () => {
    const of = (count: number) => conditionConfigSchema.safeParse({ tests: Array.from({ length: count }, () => ({ field: 'a', op: 'exists' })) }).success;
    expect([0, 1, 50, 51].map(of)).toEqual([false, true, true, false]);
  });
});
