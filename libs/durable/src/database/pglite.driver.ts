import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import { Logger } from '@nestjs/common';
import type { QueryConfig } from 'pg';
import type { ClientSession, DatabaseDriver, NativeConnection, SqlAnswer, SqlSession, SqlStatement, SqlValue } from './database-driver.js';
import { FolderLock } from './folder.lock.js';
import { askPglite } from './from-pglite.js';
import { LoneSession } from './lone.session.js';
import { PgliteStatements, type PgliteModule } from './pglite.statements.js';

/** PGlite neither vacuums nor checkpoints by itself: its log would grow with every write, and the next start with the log. */
const UPKEEP_MS = 60_000;
/** An eighth of the default; 300 MB of memory become 190. */
const SETTINGS = ['shared_buffers = 16MB'];

/** PostgreSQL within the process, in a folder or in memory. It has one session, so transactions come one after the other. */
export class PgliteDriver implements DatabaseDriver {
  readonly connection: NativeConnection;
  private readonly logger = new Logger('DurableDatabase');
  private readonly upkeep: NodeJS.Timeout;
  private readonly statements: PgliteStatements;

  private constructor(
    private readonly pglite: PGlite,
    module: PgliteModule,
    private readonly lock?: FolderLock,
  ) {
    this.connection = { engine: 'pglite', pglite };
    this.statements = new PgliteStatements(pglite, module);
    this.upkeep = setInterval(() => void this.tidy(), UPKEEP_MS).unref();
  }

  /** The folder holds the lock, and the database in a folder that only its owner may read: PGlite's own files are for everybody. */
  static async inFolder(dataDir: string): Promise<PgliteDriver> {
    const lock = await FolderLock.take(dataDir);
    try {
      const folder = join(dataDir, 'database');
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await chmod(folder, 0o700);
      const module = await import('@electric-sql/pglite');
      return new PgliteDriver(await module.PGlite.create(folder, { postgresqlconf: SETTINGS }), module, lock);
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  static async inMemory(template?: Blob): Promise<PgliteDriver> {
    const module = await import('@electric-sql/pglite');
    return new PgliteDriver(await module.PGlite.create({ postgresqlconf: SETTINGS, ...(template && { loadDataDir: template }) }), module);
  }

  async query<Row extends object>(statement: SqlStatement, values: readonly SqlValue[]): Promise<readonly Row[]> {
    if (typeof statement !== 'string') return this.statements.run<Row>(statement, values);
    const { rows } = await this.pglite.query<Row>(statement, [...values]);
    return rows;
  }

  ask(statement: QueryConfig): Promise<SqlAnswer> {
    return askPglite(this.pglite, this.pglite, statement);
  }

  lend(): Promise<ClientSession> {
    return Promise.resolve(new LoneSession(this));
  }

  transaction<Result>(work: (session: SqlSession) => Promise<Result>): Promise<Result> {
    return this.pglite.transaction((transaction) =>
      work({
        query: async <Row extends object>(statement: SqlStatement, values: readonly SqlValue[]) => {
          if (typeof statement !== 'string') return this.statements.runWithin<Row>(statement, values);
          const { rows } = await transaction.query<Row>(statement, [...values]);
          return rows;
        },
        ask: (statement) => askPglite(this.pglite, transaction, statement),
      }),
    );
  }

  async listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> {
    const stop = await this.pglite.listen(channel, heard);
    return async () => {
      if (!this.pglite.closed) await stop();
    };
  }

  async close(): Promise<void> {
    clearInterval(this.upkeep);
    try {
      await this.pglite.exec('checkpoint');
      await this.pglite.close();
    } finally {
      await this.lock?.release();
    }
  }

  /** One statement each: several in one are a transaction, in which there is no vacuum. */
  private async tidy(): Promise<void> {
    try {
      await this.pglite.exec('vacuum');
      await this.pglite.exec('checkpoint');
    } catch (error) {
      if (!this.pglite.closed) this.logger.warn(`The database could not be vacuumed: ${String(error)}`);
    }
  }
}
