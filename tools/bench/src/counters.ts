import { createHook } from 'node:async_hooks';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

/** Work that can be counted, whatever the speed of the machine. */
export interface Counts {
  parses: number;
  stringifies: number;
  charactersStringified: number;
  hashes: number;
  promises: number;
  /** Functions made of text, as a validator of a schema is. */
  compilations: number;
}

/**
 * Counts what is done while `work` runs. It slows everything down, so nothing is timed meanwhile.
 */
export async function count(work: () => Promise<unknown>): Promise<Readonly<Counts>> {
  const counts: Counts = {
    parses: 0,
    stringifies: 0,
    charactersStringified: 0,
    hashes: 0,
    promises: 0,
    compilations: 0,
  };
  const { parse, stringify } = JSON;
  const { createHash, hash } = crypto;
  const hook = createHook({
    init: (_id, type) => void (counts.promises += type === 'PROMISE' ? 1 : 0),
  });
  Object.assign(JSON, counting(counts, { parse, stringify }));
  Object.assign(crypto, {
    createHash: (...args: Parameters<typeof createHash>) => {
      counts.hashes += 1;
      return createHash(...args);
    },
    hash: (...args: unknown[]): unknown => {
      counts.hashes += 1;
      return Reflect.apply(hash, crypto, args);
    },
  });
  const { Function: own } = globalThis;
  globalThis.Function = new Proxy(own, {
    construct: (target, args: string[]) => {
      counts.compilations += 1;
      return Reflect.construct(target, args);
    },
  });
  syncBuiltinESMExports();
  hook.enable();
  try {
    await work();
  } finally {
    hook.disable();
    globalThis.Function = own;
    Object.assign(JSON, { parse, stringify });
    Object.assign(crypto, { createHash, hash });
    syncBuiltinESMExports();
  }
  return counts;
}

function counting(
  counts: Counts,
  { parse, stringify }: Pick<typeof JSON, 'parse' | 'stringify'>,
): object {
  return {
    parse: (...args: Parameters<typeof parse>): unknown => {
      counts.parses += 1;
      return parse(...args);
    },
    stringify: (...args: unknown[]): unknown => {
      const text: unknown = Reflect.apply(stringify, JSON, args);
      counts.stringifies += 1;
      counts.charactersStringified += typeof text === 'string' ? text.length : 0;
      return text;
    },
  };
}
