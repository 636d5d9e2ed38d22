import { describe, expect, it, vi } from 'vitest';
import { onAbort } from '../src/on-abort.js';

describe('onAbort', () => {
  it('tells everybody who still listens, once, through one listener at the signal', () => {
    const stop = new AbortController();
    const listen = vi.spyOn(stop.signal, 'addEventListener');
    const told: string[] = [];
    onAbort(stop.signal, () => told.push('one'));
    const end = onAbort(stop.signal, () => told.push('gone'));
    onAbort(stop.signal, () => told.push('two'));
    end();
    stop.abort();
    stop.abort();
    expect(told).toEqual(['one', 'two']);
    expect(listen).toHaveBeenCalledTimes(1);
  });

  it('lets somebody stop listening while the others are told', () => {
    const stop = new AbortController();
    const told: string[] = [];
    let endOther = (): void => undefined;
    onAbort(stop.signal, () => {
      told.push('one');
      endOther();
    });
    endOther = onAbort(stop.signal, () => told.push('other'));
    stop.abort();
    expect(told).toEqual(['one']);
  });
});
