/**
 * Finds where a text stops being JSON (RFC 8259). Called only after JSON.parse has refused the text, whose own message gives the
 * place in some versions of the engine and not in others.
 *
 * Answers line and column from 1 and what stands there, or null when the text is JSON after all. Walks the text once; nesting costs
 * no call stack.
 */
export type JsonFault = { line: number; column: number; found: string };

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const BLANK = /[ \t\n\r]*/y;

export function findJsonFault(text: string): JsonFault | null {
  const open: ('{' | '[')[] = [];
  let at = 0;
  let expects: 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end' = 'value';

  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };

  for (;;) {
    take(BLANK);
    const next = text[at];
    if (next === undefined) return expects === 'comma or end' && open.length === 0 ? null : faultAt(text, at);
    if (expects === 'colon') {
      if (next !== ':') return faultAt(text, at);
      at += 1;
      expects = 'value';
    } else if (expects === 'comma or end') {
      const inside = open.at(-1);
      if (next === ',' && inside) expects = inside === '{' ? 'key' : 'value';
      else if ((next === '}' && inside === '{') || (next === ']' && inside === '[')) open.pop();
      else return faultAt(text, at);
      at += 1;
    } else if (expects === 'key' || expects === 'key or }') {
      if (next === '}' && expects === 'key or }') {
        open.pop();
        at += 1;
        expects = 'comma or end';
      } else if (take(STRING)) expects = 'colon';
      else return faultAt(text, at);
    } else if (next === ']' && expects === 'value or ]') {
      open.pop();
      at += 1;
      expects = 'comma or end';
    } else if (next === '{' || next === '[') {
      open.push(next);
      at += 1;
      expects = next === '{' ? 'key or }' : 'value or ]';
    } else if (take(STRING) || take(NUMBER) || take(WORD)) expects = 'comma or end';
    else return faultAt(text, at);
  }
}

function faultAt(text: string, at: number): JsonFault {
  const before = text.slice(0, at);
  const found = text.codePointAt(at);
  return {
    line: before.split('\n').length,
    column: at - (before.lastIndexOf('\n') + 1) + 1,
    found: found === undefined ? 'the end of the text' : JSON.stringify(String.fromCodePoint(found)),
  };
}
