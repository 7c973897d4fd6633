import type { PGlite } from '@electric-sql/pglite';
import type { NamedStatement, SqlValue } from './database-driver.js';
import { fromResults } from './from-results.js';

/** What is loaded with PGlite, and only where it is used. */
export type PgliteModule = Pick<typeof import('@electric-sql/pglite'), 'protocol' | 'parse'>;

/**
 * Named statements of PGlite's one session. `query` of PGlite parses and plans anew each time and asks in six messages; this is the same protocol in one, for a
 * third of the time.
 */
export class PgliteStatements {
  /** The types of the parameters, by the name of the statement. */
  private readonly parsed = new Map<string, readonly number[]>();

  constructor(
    private readonly pglite: PGlite,
    private readonly module: PgliteModule,
  ) {}

  /** Waits for transactions, as `query` does: within one it would be part of what is somebody else's. */
  async run<Row extends object>(statement: NamedStatement, values: readonly SqlValue[]): Promise<readonly Row[]> {
    if (this.pglite.closed) throw new Error('The database is closed.');
    // oxlint-disable-next-line no-underscore-dangle -- the lock that its transactions take has no other name; the one of runExclusive is free within them
    return this.pglite._runExclusiveTransaction(() => this.runWithin<Row>(statement, values));
  }

  /** For who holds the transaction. */
  runWithin<Row extends object>(statement: NamedStatement, values: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.pglite.runExclusive(async () => {
      const types = this.parsed.get(statement.name) ?? (await this.parse(statement));
      const { bind, describe, execute, sync } = this.module.protocol.serialize;
      const texts = values.map((value, index) => this.textOf(value, types[index]));
      const messages = [bind({ statement: statement.name, values: texts }), describe({ type: 'P' }), execute(), sync()];
      return fromResults<Row>(this.module.parse.parseResults(await this.send(messages), this.pglite.parsers));
    });
  }

  private async parse({ name, text }: NamedStatement): Promise<readonly number[]> {
    const { parse, describe, sync } = this.module.protocol.serialize;
    const types = this.module.parse.parseDescribeStatementResults(
      await this.send([parse({ name, text }), describe({ type: 'S', name }), sync()]),
    );
    this.parsed.set(name, types);
    return types;
  }

  private send(messages: readonly Uint8Array[]): ReturnType<PGlite['execProtocolStream']> {
    return this.pglite.execProtocolStream(Buffer.concat(messages));
  }

  private textOf(value: SqlValue, type = 0): string | null {
    if (value === null) return null;
    const serialize = this.pglite.serializers[type];
    return serialize ? serialize(value) : String(value);
  }
}
