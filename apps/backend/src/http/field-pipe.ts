import { type ArgumentMetadata, Injectable, type PipeTransform } from '@nestjs/common';
import { type FieldError, Problem } from './problem.js';

/** A request with more faults than this hears of the first ones only. */
const MAX_FIELD_ERRORS = 100;

type Issue = { message: string; path?: readonly unknown[] | undefined; keys?: unknown };

/**
 * Checks bodies, queries and parameters against the schema given in their decorator (any Standard Schema; ours are Zod) and hands on
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
    throw invalidFields(read.issues, type, data);
  }
}

/** The refusal that a schema's issues amount to. `what`: the words for the whole of it, `parameter`: the path of the whole, when it has one. */
export function invalidFields(issues: readonly Issue[], what: string, parameter?: string): Problem {
  const errors = issues.slice(0, MAX_FIELD_ERRORS).flatMap((issue) => fieldErrors(issue, parameter));
  const first = errors[0];
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new Problem('invalid', first ? `${first.path === '' ? what : first.path}: ${first.message}${more}` : 'The request is not valid', { errors });
}

function fieldErrors(issue: Issue, parameter: string | undefined): FieldError[] {
  const path = [...(parameter === undefined ? [] : [parameter]), ...(issue.path ?? []).map(nameOf)];
  // An unknown field is an error of that field, though Zod reports it of the object around it.
  if (Array.isArray(issue.keys)) {
    return issue.keys.map((key) => ({ path: [...path, String(key)].join('.').slice(0, 500), message: 'is not known here' }));
  }
  return [{ path: path.join('.').slice(0, 500), message: issue.message.slice(0, 500) }];
}

function nameOf(segment: unknown): string {
  return String(typeof segment === 'object' && segment !== null && 'key' in segment ? segment.key : segment);
}
