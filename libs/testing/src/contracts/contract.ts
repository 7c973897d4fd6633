import { randomUUID } from 'node:crypto';

/** The contract of a port, independent of a test runner. */
export interface Contract<Store> {
  readonly port: string;
  readonly cases: readonly ContractCase<Store>[];
  readonly restart: RestartCase<Store>;
}

/** The functions of a test runner that a contract needs: those of Jest, Vitest or Node will do. */
export interface ContractRunner {
  readonly describe: (name: string, body: () => void) => void;
  readonly it: (name: string, body: () => Promise<void>) => void;
  readonly beforeAll: (body: () => Promise<void>) => void;
  readonly afterAll: (body: () => Promise<void>) => void;
}

/** An adapter under test. */
export interface StoreUnderTest<Store> {
  readonly store: Store;
  /** A second store over the same data, as another process has it. @default the store itself */
  readonly other?: Store;
  /** Closes the data and opens it again. Absent where the data lives in the object itself. */
  readonly reopen?: () => Promise<Store>;
  readonly close?: () => Promise<void>;
}

/** The argument of a check: two stores over the same data, and tenants that no other check uses. */
export interface Trial<Store> {
  readonly store: Store;
  readonly other: Store;
  readonly tenant: string;
  readonly otherTenant: string;
}

/**
 * A behaviour that every adapter of a port must show. Its check throws where the adapter does not.
 */
export interface ContractCase<Store> {
  readonly name: string;
  readonly check: (trial: Trial<Store>) => Promise<void>;
}

/** A check of the data that must still be there after a restart. */
export interface RestartCase<Store> {
  readonly before: (trial: Trial<Store>) => Promise<void>;
  readonly after: (store: Store, trial: Trial<Store>) => Promise<void>;
}

/**
 * Runs a contract against one adapter, which is opened once for all cases.
 *
 * @example
 * pendingStoreContract('in Redis', async () => ({ store: await RedisPendingStore.connect() }), {
 *   describe,
 *   it,
 *   beforeAll,
 *   afterAll,
 * });
 */
export function runContract<Store>(
  { port, cases, restart }: Contract<Store>,
  name: string,
  make: () => Promise<StoreUnderTest<Store>>,
  { describe, it, beforeAll, afterAll }: ContractRunner,
): void {
  describe(`${port} ${name}`, () => {
    let made: StoreUnderTest<Store>;
    beforeAll(async () => {
      made = await make();
    });
    afterAll(async () => made.close?.());
    for (const { name: sentence, check } of cases) it(sentence, () => check(trialOf(made)));
    it('has everything after a restart, where it outlives one', async () => {
      const { reopen } = made;
      const trial = trialOf(made);
      await restart.before(trial);
      await restart.after(reopen ? await reopen() : made.store, trial);
    });
  });
}

function trialOf<Store>({ store, other = store }: StoreUnderTest<Store>): Trial<Store> {
  return { store, other, tenant: `acme ${randomUUID()}`, otherTenant: `globex ${randomUUID()}` };
}

/** Starts an action `count` times before any has ended, alternately on both stores. */
export function atOnce<Store, Result>(
  { store, other }: Trial<Store>,
  count: number,
  act: (store: Store, index: number) => Promise<Result>,
): Promise<Result[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) => act(index % 2 === 0 ? store : other, index)),
  );
}

/** Texts that a database, a key or a query may get wrong. */
export const AWKWARD_TEXTS: readonly string[] = [
  '',
  'a\0b',
  '\ud800',
  '\udc00',
  "'; drop table x; --",
  '$1 %s \\ \\u0000',
  '💶 żółć 漢字',
  '","acme',
  'x'.repeat(3_000),
];
