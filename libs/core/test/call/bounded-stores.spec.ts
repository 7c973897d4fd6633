import { describe, expect, it } from '@jest/globals';
import { BoundedStores, type StorePorts } from '../../src/call/bounded-stores.js';
import { asRun } from '../../src/call/store-calls.js';
import {
  MemoryAccountStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryDirectiveStore,
  MemoryPendingStore,
  MemoryPolicyStore,
  MemoryRunLog,
  MemoryUsageStore,
} from '../../src/memory/index.js';
import { StorageUnavailableError } from '@toolloop/protocol';

/** The methods of each port that ask its database; a rule that is missing does not compile. */
const ASKED: Readonly<Partial<Record<keyof StorePorts, string>>> = {
  accounts: 'add',
  audit: 'append head read',
  conversations: 'load append list read claim leave left take turn cut cutBy delete',
  directives: 'add find list acquire renew change',
  journal: 'acquire find steal finish release',
  pending: 'add find list claim answer use due reschedule answered',
  policies: 'add find list stop release read watch',
  runs: 'add begin acquire append renew release requeueExpired wake wakeAt cancel find list read events owe listOwed settle watch',
  usage: 'add totals report',
};

function memoryPorts(): StorePorts {
  return {
    accounts: new MemoryAccountStore(),
    audit: new MemoryAuditStore(),
    conversations: new MemoryConversationStore(),
    directives: new MemoryDirectiveStore(),
    journal: new MemoryCallJournal(),
    pending: new MemoryPendingStore(),
    policies: new MemoryPolicyStore(),
    runs: new MemoryRunLog(),
    usage: new MemoryUsageStore(),
    transactions: undefined,
    tenants: undefined,
  };
}

/** The same adapter, of which every method fails with an error that does not pass. */
function broken<Port extends object>(port: Port): Port {
  return new Proxy(port, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' && name !== 'keepsCallsOf'
        ? () => Promise.reject(new Error('relation "toolloop.things" does not exist'))
        : member;
    },
  });
}

function brokenPorts(): StorePorts {
  const ports = memoryPorts();
  return {
    ...ports,
    accounts: broken(ports.accounts),
    audit: broken(ports.audit),
    conversations: broken(ports.conversations),
    directives: broken(ports.directives),
    journal: broken(ports.journal),
    pending: broken(ports.pending),
    policies: broken(ports.policies),
    runs: broken(ports.runs),
    usage: broken(ports.usage),
  };
}

function callIn(stores: object, method: string): Promise<unknown> {
  const [port = '', name = ''] = method.split('.');
  const store: unknown = Reflect.get(stores, port);
  if (typeof store !== 'object' || store === null) throw new Error(`There is no ${port}.`);
  const called: unknown = Reflect.get(store, name);
  if (typeof called !== 'function') throw new Error(`There is no ${method}.`);
  return Promise.resolve(Reflect.apply(called, store, [{}, {}, {}]));
}

const METHODS = Object.entries(ASKED).flatMap(([port, names]) =>
  names.split(' ').map((name) => `${port}.${name}`),
);

describe('the bounds of the stores', () => {
  it.each(METHODS)('tell the failure of %s as storage that is unavailable', async (method) => {
    const stores = new BoundedStores(brokenPorts());
    await expect(callIn(stores, method)).rejects.toBeInstanceOf(StorageUnavailableError);
  });

  it('leave the error of an opening as it is, so that the start tells it', async () => {
    const stores = new BoundedStores(brokenPorts());
    await expect(stores.runs.open()).rejects.toThrow('relation "toolloop.things"');
  });

  it('keep the fields and the quick answers of an adapter', () => {
    const ports = memoryPorts();
    const stores = new BoundedStores(ports);
    expect(stores.runs.keepsCallsOf(ports.journal)).toBe(ports.runs.keepsCallsOf(ports.journal));
    expect(stores.directives.changes$).toBe(ports.directives.changes$);
    expect(stores.pending).toBeInstanceOf(MemoryPendingStore);
  });

  it('end a question with its run', async () => {
    const ports = memoryPorts();
    ports.pending.find = () => new Promise(() => undefined);
    const stores = new BoundedStores(ports);
    const run = new AbortController();
    const asked = asRun(run.signal, () => stores.pending.find('pending_1'));
    run.abort();
    await expect(asked).rejects.toThrow('aborted');
  });
});
