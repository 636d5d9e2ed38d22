/**
 * A pool of connections to one origin in which every connection is checked on the address it is dialled to.
 * A name's addresses are all looked at and one bad one refuses the name; what is dialled is what was looked at, so a second answer of the name
 * server changes nothing. Literals never reach a lookup function (net.connect skips it), so they are judged before dialling. The far end of the open
 * socket is judged once more. A connection kept for reuse stays with the address it was checked for.
 * No proxy setting of the environment and no unix socket is ever looked at.
 */
import { type LookupAddress } from 'node:dns';
import { type LookupFunction, Socket } from 'node:net';
import { buildConnector, Client, type Dispatcher, Pool } from 'undici';
import { judgeAddress } from './address-guard.js';
import { type AllowList, normaliseHost } from './allow-list.js';
import { portOf } from './check-target.js';
import { parseAddress } from './parse-address.js';

/** The most a dial may take, in ms, also when the caller allows more. */
const DIAL_TIMEOUT_MS = 10_000;
/** Before the next address of a name is tried, in ms (RFC 8305 §5 recommends 250; a slow far side must not lose both). */
const NEXT_ADDRESS_AFTER_MS = 1_000;

/** The guard's refusal, as it travels through undici. */
export class AddressRefusedError extends Error {
  override readonly name = 'AddressRefusedError';
  readonly code = 'ONWARD_ADDRESS_REFUSED';
}

/**
 * What a dispatch is for, handed to undici beside its options. undici has no way to give up dialling (destroying `socket` is one), and after an aborted
 * request it dials once more for nobody: `isWanted` is asked before every dial.
 */
export type Purpose = { isWanted(): boolean; socket: Socket | null };

export type GuardOptions = { readonly allow: AllowList; readonly lookup: LookupFunction };

/** A pool for `origin` (scheme, host, port), one request at a time on each connection, no retry of any kind. */
export function openGuardedPool(origin: string, { allow, lookup }: GuardOptions): Pool {
  const url = new URL(origin);
  const host = normaliseHost(url.hostname);
  const port = portOf(url);
  const isLiteral = parseAddress(host) !== null;
  const refuse = (address: string): AddressRefusedError | null => {
    const bytes = parseAddress(address);
    const verdict = bytes === null ? ({ allowed: false, why: 'not an address' } as const) : judgeAddress(bytes, port, allow, isLiteral ? null : host);
    return verdict.allowed ? null : new AddressRefusedError(`Address not allowed: ${host} ${isLiteral ? 'is refused:' : 'leads to'} ${verdict.why}`);
  };
  const connect = buildConnector({
    timeout: DIAL_TIMEOUT_MS,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_AFTER_MS,
    lookup: guardLookup(lookup, refuse),
  });
  const dial = (slot: Slot, options: buildConnector.Options, callback: buildConnector.Callback) => {
    const { purpose } = slot;
    const refusal = purpose?.isWanted() === true ? (isLiteral ? refuse(host) : null) : new NobodyWaitsError('nobody waits for this connection');
    if (purpose === null || refusal !== null) {
      process.nextTick(callback, refusal, null);
      return;
    }
    const socket: unknown = connect(options, (...[error, opened]) => {
      if (error !== null) return callback(error, null);
      const late = refuse(opened.remoteAddress ?? '');
      if (late === null) return callback(null, opened);
      opened.destroy();
      callback(late, null);
    });
    if (socket instanceof Socket) purpose.socket = socket;
  };
  return new Pool(origin, { factory: () => new PurposefulClient(origin, { purpose: null }, dial) });
}

/** The one request a client is busy with: pipelining is off, and a pool hands a client the next one only when it is free. */
type Slot = { purpose: Purpose | null };

class PurposefulClient extends Client {
  constructor(
    origin: string,
    private readonly slot: Slot,
    dial: (slot: Slot, options: buildConnector.Options, callback: buildConnector.Callback) => void,
  ) {
    super(origin, {
      pipelining: 1,
      allowH2: false,
      headersTimeout: 0, // both are idle timers and no deadline; the exchange has its own
      bodyTimeout: 0,
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 30_000,
      connect: (options, callback) => dial(slot, options, callback),
    });
  }

  override dispatch(options: Dispatcher.DispatchOptions & { purpose?: Purpose }, handler: Dispatcher.DispatchHandler): boolean {
    this.slot.purpose = options.purpose ?? null;
    return super.dispatch(options, handler);
  }
}

class NobodyWaitsError extends Error {
  readonly code = 'ONWARD_NOBODY_WAITS';
}

function guardLookup(lookup: LookupFunction, refuse: (address: string) => Error | null): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, answer, family) => {
      if (error) return callback(error, '', 0);
      const addresses: LookupAddress[] = typeof answer === 'string' ? [{ address: answer, family: family ?? 4 }] : answer;
      const [first] = addresses;
      if (first === undefined) return callback(Object.assign(new Error('no address'), { code: 'ENOTFOUND' }), '', 0);
      for (const { address } of addresses) {
        const refusal = refuse(address);
        if (refusal !== null) return callback(refusal, '', 0);
      }
      if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}
