import type { QueryConfig } from 'pg';
import {
  type SqlAnswer,
  type SqlSession,
  type SqlStatement,
  type SqlValue,
  toStorageError,
} from './database-driver.js';

/**
 * One open transaction, or one savepoint in it. What is asked of it at once is done one after the
 * other, since a session can do no other, and a savepoint is one turn: what another caller asks
 * meanwhile is not rolled back with it.
 */
export class TransactionScope {
  private turns: Promise<unknown> = Promise.resolve();
  private failure: { readonly cause: unknown } | undefined;
  /** Why nothing may be kept, though the database would. */
  private loss: Error | undefined;
  private isOver = false;
  private readonly depth: number;
  private readonly savepoints: SavepointStack;
  /** One for a transaction and all savepoints in it. */
  private readonly standstill: Standstill;

  constructor(
    private readonly session: SqlSession,
    private readonly outer?: TransactionScope,
    longestIdleMs = LONGEST_IDLE_MS,
  ) {
    this.depth = outer ? outer.depth + 1 : 0;
    this.standstill = outer?.standstill ?? new Standstill(longestIdleMs);
    this.savepoints = new SavepointStack(`toolloop_shared_${this.depth}`);
  }

  /** Tells if it is the other, or a savepoint somewhere in it. */
  isWithin(other: TransactionScope): boolean {
    return this === other || this.outer?.isWithin(other) === true;
  }

  query<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    return this.take(() => {
      this.savepoints.asked();
      return this.send<Row>(statement, values);
    });
  }

  /** Runs a statement that a library sends over a client of its own. */
  ask(statement: QueryConfig, client: object): Promise<SqlAnswer> {
    return this.take(() => {
      this.savepoints.asked(client);
      return this.noted(this.session.ask(statement));
    });
  }

  /**
   * Marks a client's open savepoint as one that changes settings: role, tenant. No one with a
   * savepoint below may ask with them.
   */
  keepSettings(client: object): void {
    this.savepoints.keepSettings(client);
  }

  /** Sets a savepoint of a library's client. Its own transaction is one as well, with no label. */
  setSavepoint(client: object, label: string): Promise<void> {
    return this.take(async () => {
      await this.send(`savepoint ${this.savepoints.set(client, label)}`);
    });
  }

  endSavepoint(client: object, label: string): Promise<void> {
    return this.take(async () => {
      if (this.failure)
        throw new Error(
          'A statement of the transaction failed, so it can only be rolled back.',
          this.failure,
        );
      await this.release(client, label);
    });
  }

  /**
   * Undoes what came after a savepoint, a statement that failed as well. Nothing of the transaction
   * is kept where others have written something since.
   */
  undoSavepoint(client: object, label: string): Promise<void> {
    return this.take(() => this.undo(client, label));
  }

  /** Undoes and ends one. Where the client has none any more, nothing of it was kept. */
  async dropSavepoint(client: object, label: string): Promise<void> {
    if (this.isOver) return;
    await this.take(async () => {
      if (!this.savepoints.has(client, label)) return;
      await this.undo(client, label);
      await this.release(client, label);
    });
  }

  /**
   * Runs `work` behind a savepoint: when it rejects, what it did is undone and the transaction
   * continues.
   */
  nested<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    const name = `toolloop_${this.depth + 1}`;
    return this.take(async () => {
      this.savepoints.asked();
      await this.send(`savepoint ${name}`);
      try {
        const result = await new TransactionScope(this.session, this).complete(work);
        await this.send(`release savepoint ${name}`);
        return result;
      } catch (error) {
        await this.send(`rollback to savepoint ${name}`);
        throw error;
      }
    });
  }

  /**
   * Runs `work` to its end, and all it has begun. Rejects where a statement failed, though `work`
   * may have caught that: PostgreSQL takes nothing more after it, and would answer a commit with a
   * silent rollback. A transaction that stands still rejects as well, since others wait for it.
   */
  async complete<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    try {
      const result = await (this.outer ? work(this) : this.standstill.end(work(this)));
      await this.turns;
      if (this.savepoints.hasOpen && !this.failure) this.loss ??= new Error(STILL_OPEN);
      if (!this.failure && !this.loss) return result;
    } finally {
      await this.turns;
      this.isOver = true;
    }
    if (this.loss) throw this.loss;
    const cause = toStorageError(this.failure?.cause); // libraries are told in the driver's words
    throw new Error(
      'A statement of the transaction failed, so all of it is rolled back. Put what may fail into its own transaction.',
      {
        cause,
      },
    );
  }

  private async undo(client: object, label: string): Promise<void> {
    const { name, hasGuests } = this.savepoints.undo(client, label);
    if (hasGuests) this.loss ??= new Error(LOST);
    await this.send(`rollback to savepoint ${name}`);
    this.failure = undefined;
  }

  private async release(client: object, label: string): Promise<void> {
    const name = this.savepoints.end(client, label);
    if (name !== undefined) await this.send(`release savepoint ${name}`);
  }

  private take<Result>(turn: () => Promise<Result>): Promise<Result> {
    if (this.isOver) return Promise.reject(new Error(IS_OVER));
    const taken = this.turns.then(turn);
    this.turns = taken.catch(() => undefined);
    return taken;
  }

  private send<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[] = [],
  ): Promise<readonly Row[]> {
    return this.noted(this.session.query<Row>(statement, values));
  }

  private async noted<Result>(asked: Promise<Result>): Promise<Result> {
    this.standstill.move();
    try {
      return await asked;
    } catch (error) {
      this.failure ??= { cause: error };
      throw error;
    } finally {
      this.standstill.rest();
    }
  }
}

/**
 * The milliseconds for which a transaction may keep others waiting without a statement. A server
 * ends the session of such a one as well.
 */
export const LONGEST_IDLE_MS = 15_000;

/**
 * Watches a transaction for standing still: whatever it waits for, others wait for what it has
 * locked, and on PGlite for its session.
 */
class Standstill {
  private moving = 0;
  private timer: NodeJS.Timeout | undefined;
  private giveUp: (() => void) | undefined;

  constructor(private readonly longestMs: number) {}

  /** Settles as the work does, or rejects once there was no statement for too long. */
  end<Result>(work: Promise<Result>): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      this.giveUp = () =>
        reject(
          new Error(
            `A transaction stood still for ${this.longestMs / 1_000} seconds, ${STOOD_STILL}`,
          ),
        );
      this.rest();
      work.then(resolve, reject);
    }).finally(() => {
      this.giveUp = undefined;
      clearTimeout(this.timer);
    });
  }

  move(): void {
    this.moving += 1;
    clearTimeout(this.timer);
  }

  rest(): void {
    this.moving = Math.max(0, this.moving - 1);
    clearTimeout(this.timer);
    if (this.moving === 0 && this.giveUp)
      this.timer = setTimeout(this.giveUp, this.longestMs).unref();
  }
}

const STOOD_STILL =
  'while others waited for it, so it was rolled back. Await nothing remote in it. Whatever it waited for may have waited for it: where database or its stores are used as well, begin with database.transaction.';

const IS_OVER =
  'The transaction is over. Await everything inside of it; start what should outlive it with database.outside(() => …).';
const LOST =
  'A library rolled back its part of the transaction, and with it what others did meanwhile, so everything is rolled back. Put a part that may fail into a database.transaction of its own.';
const STILL_OPEN =
  'A transaction that a library began inside of this one was still open at its end, so everything is rolled back. Await it.';

/** One of a library's client within a transaction. */
interface Savepoint {
  readonly client: object;
  /** As the client calls it. Two clients may use the same word. */
  readonly label: string;
  readonly name: string;
  isOver: boolean;
  hasGuests: boolean;
  /** Until its end there is another role, or another tenant. */
  hasSettings: boolean;
}

/**
 * The savepoints that clients of libraries have in one transaction. They may end in any order,
 * though those of a session are nested, and no one waits for another: a query inside of a library's
 * transaction could not be told from one beside it, and would wait for ever.
 */
export class SavepointStack {
  private readonly savepoints: Savepoint[] = [];
  private made = 0;

  constructor(private readonly prefix: string) {}

  get hasOpen(): boolean {
    return this.savepoints.some(({ isOver }) => !isOver);
  }

  /**
   * Notes a statement, which would be undone with every savepoint that others have open.
   *
   * @throws {Error} Where it would run in another's role or tenant.
   */
  asked(client?: object): void {
    const own = this.savepoints.findIndex((one) => one.client === client && !one.isOver);
    const above = own < 0 ? [] : this.savepoints.slice(own);
    if (above.some((one) => one.hasSettings && !one.isOver && one.client !== client))
      throw new Error(OTHER_SETTINGS);
    for (const savepoint of this.savepoints) savepoint.hasGuests ||= savepoint.client !== client;
  }

  keepSettings(client: object): void {
    for (const savepoint of this.savepoints) savepoint.hasSettings ||= savepoint.client === client;
  }

  /** Returns the name to be set. */
  set(client: object, label: string): string {
    this.made += 1;
    const name = `${this.prefix}_${this.made}`;
    this.savepoints.push({
      client,
      label,
      name,
      isOver: false,
      hasGuests: false,
      hasSettings: false,
    });
    return name;
  }

  /**
   * Ends one, and its client's later ones. Returns the name to be released, which is none while
   * others have one open above it.
   */
  end(client: object, label: string): string | undefined {
    for (const savepoint of this.savepoints.slice(this.indexOf(client, label)))
      savepoint.isOver ||= savepoint.client === client;
    const ended = this.savepoints.findLastIndex(({ isOver }) => !isOver) + 1;
    return this.savepoints.splice(ended)[0]?.name;
  }

  /**
   * Forgets what came after one, which stays. Tells its name, and whether others lose what they did
   * since.
   */
  undo(client: object, label: string): Pick<Savepoint, 'name' | 'hasGuests'> {
    const index = this.indexOf(client, label);
    const [savepoint] = this.savepoints.splice(index);
    if (savepoint) this.savepoints.push(savepoint);
    return savepoint ?? missing(label);
  }

  has(client: object, label: string): boolean {
    return this.find(client, label) >= 0;
  }

  private indexOf(client: object, label: string): number {
    const index = this.find(client, label);
    return index < 0 ? missing(label) : index;
  }

  private find(client: object, label: string): number {
    return this.savepoints.findLastIndex(
      (one) => one.client === client && one.label === label && !one.isOver,
    );
  }
}

function missing(label: string): never {
  throw new Error(
    label === ''
      ? NO_TRANSACTION
      : `There is no savepoint "${label}" here: it was rolled back with one below it.`,
  );
}

const NO_TRANSACTION =
  "The library's transaction no longer exists: it was rolled back with the one it was begun in.";
const OTHER_SETTINGS =
  'Another library transaction is open in this one and has set its own role or tenant, under which this would run. Await one before the next begins.';

/**
 * A command by which a library begins or ends its transactions. Here they may be parts of one of
 * ours, so they are understood and not just passed on.
 */
export type TransactionCommand =
  | { readonly kind: 'begin'; readonly modes: string }
  | { readonly kind: 'commit' | 'rollback' }
  | { readonly kind: 'savepoint' | 'release' | 'rollback-to'; readonly name: string };

const BEGINS_LIKE_ONE =
  /^\s*(?:begin|start\s+transaction|commit|end|rollback|abort|savepoint|release|prepare\s+transaction)\b/i;

const NAME = String.raw`(?<name>"(?:[^"]|"")+"|[\w$]+)`;
const WORK = String.raw`(?:\s+(?:work|transaction))?`;
const FORMS: readonly (readonly [TransactionCommand['kind'], RegExp])[] = [
  [
    'begin',
    new RegExp(
      String.raw`^(?:begin${WORK}|start\s+transaction)(?:\s+(?<modes>[a-z][a-z,\s]*))?$`,
      'i',
    ),
  ],
  ['commit', new RegExp(`^(?:commit|end)${WORK}$`, 'i')],
  ['rollback', new RegExp(`^(?:rollback|abort)${WORK}$`, 'i')],
  ['savepoint', new RegExp(String.raw`^savepoint\s+${NAME}$`, 'i')],
  ['release', new RegExp(String.raw`^release\s+(?:savepoint\s+)?${NAME}$`, 'i')],
  ['rollback-to', new RegExp(String.raw`^rollback${WORK}\s+to\s+(?:savepoint\s+)?${NAME}$`, 'i')],
];

/**
 * Reads a command; undefined for every other statement.
 *
 * @throws {Error} Where a command comes together with others, or in a form that cannot be a part of
 *   a transaction.
 */
export function transactionCommand(text: string): TransactionCommand | undefined {
  if (!BEGINS_LIKE_ONE.test(text)) return undefined;
  const command = text.trim().replace(/[;\s]+$/, '');
  for (const [kind, form] of FORMS) {
    const groups = form.exec(command)?.groups ?? (form.test(command) ? {} : undefined);
    if (groups) return commandOf(kind, groups);
  }
  throw new Error(
    `"${command.slice(0, 40)}" cannot be handled here. Send begin, commit, rollback and savepoints one by one.`,
  );
}

function commandOf(
  kind: TransactionCommand['kind'],
  groups: Readonly<Record<string, string | undefined>>,
): TransactionCommand {
  if (kind === 'begin') return { kind, modes: groups['modes'] ?? '' };
  if (kind === 'commit' || kind === 'rollback') return { kind };
  return { kind, name: plainName(groups['name'] ?? '') };
}

function plainName(name: string): string {
  return name.startsWith('"') ? name.slice(1, -1) : name.toLowerCase();
}
