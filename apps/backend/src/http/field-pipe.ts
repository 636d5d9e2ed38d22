import { type ArgumentMetadata, Injectable, type PipeTransform } from '@nestjs/common';
import { flattenIssues } from '@onward/workflow-graph/flatten-issues';
import { z } from 'zod';
import { type FieldError, Problem } from './problem.js';

const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

/** How Zod says in this process that a value is missing or of another kind: in the words of the API, which know neither `undefined` nor `NaN`. */
z.config({
  customError: ({ code, input, expected }) => {
    if (code !== 'invalid_type') return undefined;
    if (input === undefined) return 'is missing';
    const kind = KINDS[String(expected)];
    return kind === undefined ? undefined : `must be ${kind}`;
  },
});

/** A request with more faults than this hears of the first ones only. */
const MAX_FIELD_ERRORS = 100;

/**
 * Checks bodies, queries and parameters against the Zod schema given in their decorator and hands on
 * what the schema made of them: defaults applied, numbers of a query coerced. Refuses with one error a field, each with its path.
 *
 * It stands in the place of Nest's StandardSchemaValidationPipe, which gives its errors as flat texts, knows no name of a query or
 * path parameter, and silently takes keys named `constructor` or `prototype` out of the body.
 */
@Injectable()
export class FieldPipe implements PipeTransform {
  async transform(value: unknown, { type, data, schema }: ArgumentMetadata): Promise<unknown> {
    if (!schema || type === 'custom') return value;
    const read = await schema['~standard'].validate(value);
    if (!read.issues) return read.value;
    throw invalidFields(read.issues as readonly z.core.$ZodIssue[], type, data);
  }
}

/** The refusal that a schema's issues amount to. `what`: the words for the whole of it, `parameter`: the path of the whole, when it has one. */
export function invalidFields(issues: readonly z.core.$ZodIssue[], what: string, parameter?: string): Problem {
  const errors = flattenIssues(issues, parameter === undefined ? [] : [parameter])
    .slice(0, MAX_FIELD_ERRORS)
    .map(({ path, message }): FieldError => ({ path: path.map(String).join('.').slice(0, 500), message: message.slice(0, 500) }));
  const first = errors[0];
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new Problem('invalid', first ? `${first.path === '' ? what : first.path}: ${first.message}${more}` : 'The request is not valid', { errors });
}
