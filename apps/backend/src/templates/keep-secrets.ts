import type { FilterImplOptions } from 'liquidjs';
import { TemplateError } from './template-error.js';

type FilterHandler = Extract<FilterImplOptions, (...args: never[]) => unknown>;

/** What may be done to a secret: something may stand before or behind it. Any other filter would work on its placeholder and not on its value. */
const ADDING: ReadonlySet<string> = new Set(['append', 'prepend']);

/** A filter would change a secret, of which only the placeholder is there. */
export class SecretChangedError extends TemplateError {
  constructor(readonly secret: string) {
    super(`A filter changes the secret "${secret}", which can only be used as it is`);
  }
}

/**
 * The same filter, but for texts that hold a secret: those it may add to and never change, also where the placeholder would come out whole (`url_encode`
 * would leave it as it is, and the value would not be encoded). Secrets are what the scope has under `secrets`, each as the placeholder that stands for
 * it. Throws SecretChangedError.
 */
export function keepSecrets(filterName: string, filter: FilterImplOptions): FilterImplOptions {
  const { handler, raw } = typeof filter === 'function' ? { handler: filter, raw: false } : filter;
  const kept: FilterHandler = function* (value, ...args) {
    const result: unknown = yield handler.call(this, value, ...(args as unknown[]));
    const { environments } = this.context as { environments: Record<string, unknown> };
    if (!Object.hasOwn(environments, 'secrets')) return result;
    for (const [name, placeholder] of Object.entries(environments['secrets'] as Record<string, string>)) {
      if (holds([value, ...args], placeholder) && !(ADDING.has(filterName) && holds(result, placeholder))) throw new SecretChangedError(name);
    }
    return result;
  };
  return raw === true ? { handler: kept, raw } : kept;
}

function holds(value: unknown, placeholder: string): boolean {
  if (typeof value === 'string') return value.includes(placeholder);
  if (typeof value !== 'object' || value === null) return false;
  return Object.values(value).some((member) => holds(member, placeholder));
}
