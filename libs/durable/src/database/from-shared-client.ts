import type { ClientBase, ClientConfig, PoolConfig } from 'pg';
import { SharedClient, type SharedHandle } from './shared.client.js';

/** What makes a `pg` pool of a library one that shares the handle. Nobody waits for a place in it: the handle itself has few enough. */
export function toPoolConfig(handle: SharedHandle): PoolConfig {
  const Client = class extends SharedClient {
    constructor(config?: ClientConfig) {
      super(handle, config);
    }
  };
  return { Client: Client as unknown as new () => ClientBase, max: Number.MAX_SAFE_INTEGER, maxUses: 1 };
}
