import { afterAll, beforeAll, expect, it } from '@jest/globals';
import * as M from '@mikro-orm/decorators/legacy';
import { ConfigurationError, ToolCatalog } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Expose } from 'class-transformer';
import * as T from 'typeorm';
import { OrmApp, type Orm } from './orm-app.js';

/** Columns that a database, an ORM or the application sets. */
@T.Entity('notes')
@M.Entity({ tableName: 'notes' })
export class Note {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() words!: string;
  @T.Column({ type: 'varchar', default: 'new' })
  @M.Property({ type: 'string', default: 'new' })
  @Expose()
  state!: string;
  @T.Column({ type: 'int', default: 3 })
  @M.Property({ type: 'integer', defaultRaw: '3' })
  @Expose()
  rank!: number;
  @T.Column({ type: 'timestamptz', precision: 3, nullable: true })
  @M.Property({ type: 'datetime', length: 3, nullable: true })
  @Expose()
  dueAt?: Date | null;
  @T.CreateDateColumn({ type: 'timestamptz', precision: 3 })
  @M.Property({ type: 'datetime', length: 3, onCreate: () => new Date() })
  @Expose()
  madeAt!: Date;
  @T.UpdateDateColumn({ type: 'timestamptz', precision: 3 })
  @M.Property({
    type: 'datetime',
    length: 3,
    onCreate: () => new Date(),
    onUpdate: () => new Date(),
  })
  @Expose()
  changedAt!: Date;
  @T.DeleteDateColumn({ type: 'timestamptz', precision: 3, nullable: true })
  @M.Property({ type: 'datetime', length: 3, nullable: true, onUpdate: () => null })
  @Expose()
  goneAt?: Date | null;
  @T.Column({ type: 'timestamptz', precision: 3, default: () => 'now()' })
  @M.Property({ type: 'datetime', length: 3, defaultRaw: 'now()' })
  @Expose()
  readAt!: Date;
  @T.Column({ type: 'date', default: 'now' })
  @M.Property({ type: 'date', default: 'now' })
  @Expose()
  day!: string;
  @T.Column({ type: 'uuid', default: () => 'gen_random_uuid()' })
  @M.Property({ type: 'uuid', defaultRaw: 'gen_random_uuid()' })
  @Expose()
  token!: string;
  @T.Column({ type: 'uuid', generated: 'uuid' })
  @M.Property({ type: 'uuid', onCreate: () => crypto.randomUUID() })
  @Expose()
  reference!: string;
  @T.Column({
    type: 'int',
    generatedType: 'STORED',
    asExpression: 'length(words)',
    insert: false,
    update: false,
  })
  @M.Property({ type: 'integer', generated: '(length(words)) stored' })
  @Expose()
  size!: number;
  @T.VersionColumn() @M.Property({ type: 'integer', version: true }) @Expose() version!: number;
}

@ToolResource(Note, { namespace: 'notes', actions: ['read', 'create', 'update'] })
class NoteTools {}

@ToolResource(Note, {
  namespace: 'tokens',
  actions: { create: { accept: ['words', 'token', 'reference'] } },
})
class TokenTools {}

const SET = ['madeAt', 'changedAt', 'goneAt', 'readAt', 'day', 'size'] as const;

@ToolResource(Note, { namespace: 'notes', actions: { create: { accept: ['words', ...SET] } } })
class AcceptingTools {}

/** The columns that no model writes, unless a resource accepts them. */
export function keepsItsColumns(orm: Orm): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({ orm, entities: [Note], resources: [NoteTools, TokenTools] });
  });
  afterAll(() => app?.close());
  const inputOf = (tool: string): readonly string[] => {
    const schema: { readonly properties?: { readonly input?: { readonly properties?: object } } } =
      app.module.get(ToolCatalog).find(tool)?.spec.inputSchema ?? {};
    return Object.keys(schema.properties?.input?.properties ?? {}).toSorted();
  };

  it('are not in an input where the database or the ORM sets them', () => {
    expect(inputOf('notes__create')).toEqual(['dueAt', 'rank', 'state', 'words']);
    expect(inputOf('notes__update')).toEqual(['dueAt', 'rank', 'state', 'words']);
  });

  it('are in an input that accepts them, where a value would be set unless one is given', () => {
    expect(inputOf('tokens__create')).toEqual(['reference', 'token', 'words']);
  });

  it('are refused with a pointer where a model names them all the same', async () => {
    for (const name of SET) {
      const input = { words: 'x', [name]: '2020-01-01T00:00:00Z' };
      expect(await app.error('notes__create', { input })).toMatchObject({ status: '400' });
    }
    expect(await app.sql('select count(*)::int as n from notes')).toEqual([{ n: 0 }]);
  });

  it('are set, and shown', async () => {
    const made = await app.read<Note>('notes__create', { input: { words: 'four' } });
    expect(made).toMatchObject({
      state: 'new',
      rank: 3,
      size: 4,
      version: 1,
      madeAt: expect.any(String),
      day: expect.any(String),
    });
  });

  it('stop the start where a resource accepts one that is always set, each by its name', async () => {
    const starting = OrmApp.start({ orm, entities: [Note], resources: [AcceptingTools] }).then(
      (one) => one.close(),
    );
    const error = await starting.catch((failure: unknown) => failure);
    expect(error).toBeInstanceOf(ConfigurationError);
    const problems =
      error instanceof ConfigurationError ? error.findings.map(({ problem }) => problem) : [];
    expect(problems).toEqual(SET.map((name) => expect.stringContaining(`"${name}"`)));
  });
}
