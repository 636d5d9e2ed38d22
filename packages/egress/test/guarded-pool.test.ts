import { lookup } from 'node:dns';
import type { Dispatcher } from 'undici';
import { describe, expect, it } from 'vitest';
import { NOTHING_ALLOWED } from '../src/allow-list.js';
import { openGuardedPool, type Purpose } from '../src/guarded-pool.js';
import { allow, openHttpTarget } from './local-target.js';

/** Dispatches straight to the pool, past the check of the URL. */
function dispatch(pool: Dispatcher, purpose: Purpose | undefined): Promise<unknown> {
  return new Promise((resolve) => {
    const options: Dispatcher.DispatchOptions & { purpose?: Purpose } = { path: '/', method: 'GET', ...(purpose && { purpose }) };
    pool.dispatch(options, {
      onRequestStart: () => undefined,
      onResponseStart: (_, status) => resolve(status),
      onResponseEnd: () => undefined,
      onResponseError: (_, error) => resolve('code' in error ? error.code : error),
    });
  });
}

describe('openGuardedPool', () => {
  it('judges a literal itself, which no lookup function is ever asked about', async () => {
    const target = await openHttpTarget((_, response) => response.end());
    const wanted: Purpose = { isWanted: () => true, socket: null };
    const closed = openGuardedPool(target.origin, { allow: NOTHING_ALLOWED, lookup });
    expect(await dispatch(closed, wanted)).toBe('ONWARD_ADDRESS_REFUSED');
    expect(target.connections()).toBe(0);
    const open = openGuardedPool(target.origin, { allow: allow(target), lookup });
    expect(await dispatch(open, wanted)).toBe(200);
    await Promise.all([closed.destroy(), open.destroy(), target.close()]);
  });

  it('dials for nobody who does not wait', async () => {
    const target = await openHttpTarget((_, response) => response.end());
    const pool = openGuardedPool(target.origin, { allow: allow(target), lookup });
    expect(await dispatch(pool, { isWanted: () => false, socket: null })).toBe('ONWARD_NOBODY_WAITS');
    expect(await dispatch(pool, undefined)).toBe('ONWARD_NOBODY_WAITS');
    expect(target.connections()).toBe(0);
    await Promise.all([pool.destroy(), target.close()]);
  });
});
