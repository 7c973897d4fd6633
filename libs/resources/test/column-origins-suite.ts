import { afterAll, beforeAll, expect, it } from '@jest/globals';
import * as M from '@mikro-orm/decorators/legacy';
import { ToolCatalog, ToolField } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Expose } from 'class-transformer';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import * as T from 'typeorm';
import { OrmApp, type Orm } from './orm-app.js';

enum Wish {
  Cancel = 'cancel',
  CallBack = 'call_back',
}

const WISHES = Object.values(Wish);

/**
 * A form that strangers fill in, with columns that the database, the ORM or the application sets.
 */
@T.Entity('forms')
@M.Entity({ tableName: 'forms' })
export class Form {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() ownerId!: string;
  @T.Column({ type: 'varchar' })
  @M.Property({ type: 'string' })
  @ToolField({ origin: 'actor', ownedBy: 'ownerId' })
  @Expose()
  words!: string;
  @T.Column({ type: 'enum', enum: WISHES, default: Wish.CallBack })
  @M.Enum({ items: () => Wish, default: Wish.CallBack })
  @Expose()
  wish!: Wish;
  @T.Column({ type: 'enum', enum: WISHES, nullable: true })
  @M.Enum({ items: () => Wish, nullable: true })
  @Expose()
  second?: Wish | null;
  @T.Column({ type: 'enum', enum: WISHES, default: Wish.CallBack })
  @M.Enum({ items: () => Wish, default: Wish.CallBack })
  @ToolField({ origin: 'application' })
  @Expose()
  decided!: Wish;
  @T.Column({ type: 'int', default: 3 })
  @M.Property({ type: 'integer', default: 3 })
  @Expose()
  order!: number;
  @T.Column({ type: 'decimal', precision: 12, scale: 2 })
  @M.Property({ type: 'decimal', precision: 12, scale: 2 })
  @Expose()
  sum!: string;
  @T.Column({ type: 'boolean' }) @M.Property({ type: 'boolean' }) @Expose() isUrgent!: boolean;
  @T.Column({ type: 'date' }) @M.Property({ type: 'date' }) @Expose() day!: string;
  @T.Column({ type: 'uuid' }) @M.Property({ type: 'uuid' }) @Expose() about!: string;
  @T.CreateDateColumn({ type: 'timestamptz', precision: 3 })
  @M.Property({ type: 'datetime', length: 3, onCreate: () => new Date() })
  @Expose()
  madeAt!: Date;
  @T.UpdateDateColumn({ type: 'timestamptz', precision: 3 })
  @M.Property({ type: 'datetime', length: 3, onUpdate: () => new Date() })
  @Expose()
  changedAt!: Date;
  @T.Column({ type: 'timestamptz', precision: 3, default: () => 'now()' })
  @M.Property({ type: 'datetime', length: 3, defaultRaw: 'now()' })
  @Expose()
  readAt!: Date;
  @T.Column({ type: 'uuid', default: () => 'gen_random_uuid()' })
  @M.Property({ type: 'uuid', defaultRaw: 'gen_random_uuid()' })
  @Expose()
  token!: string;
  @T.Column({ type: 'uuid', generated: 'uuid' })
  @M.Property({ type: 'uuid', onCreate: () => crypto.randomUUID() })
  @Expose()
  given!: string;
  @T.Column({
    type: 'int',
    generatedType: 'STORED',
    asExpression: 'length(words)',
    insert: false,
    update: false,
  })
  @M.Property({
    type: 'integer',
    onUpdate: ({ words }: Form) => words.length,
    onCreate: ({ words }: Form) => words.length,
  })
  @Expose()
  size!: number;
  @T.VersionColumn() @M.Property({ type: 'integer', version: true }) @Expose() version!: number;
}

/** A row whose key is a number that someone gives. */
@T.Entity('tables')
@M.Entity({ tableName: 'tables' })
export class Table {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  number!: number;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40, hidden: true })
  tenant!: string;
}

@ToolResource(Form, {
  namespace: 'forms',
  actions: { read: true, create: { accept: ['words', 'given'] } },
})
class FormTools {}

@ToolResource(Table, { namespace: 'tables', actions: ['read'] })
class TableTools {}

@ToolResource(Form, {
  namespace: 'vouched',
  labels: { returns: 'trusted' },
  actions: { read: true, update: { labels: { reads: 'public' } } },
})
class VouchedTools {}

/** The columns of an entity that are the application's without a label, by an ORM. */
export function saysWhoseColumnsAre(orm: Orm): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({
      orm,
      entities: [Form, Table],
      resources: [FormTools, TableTools, VouchedTools],
    });
  });
  afterAll(() => app?.close());

  function columnOf(tool: string, name: string): object {
    const schema = app.module.get(ToolCatalog).find(tool)?.spec.outputSchema ?? {};
    const { items } = schemaIn(schema.properties?.['rows']);
    const { $ref = '', properties } = schemaIn(Array.isArray(items) ? items[0] : items);
    const row =
      properties ?? schemaIn(schema.$defs?.[$ref.replace('#/$defs/', '')]).properties ?? {};
    return schemaIn(row[name]);
  }

  const originOf = (tool: string, name: string): unknown =>
    Reflect.get(columnOf(tool, name), 'x-toolloop-origin');

  it.each(['id', 'ownerId', 'madeAt', 'changedAt', 'readAt', 'token', 'version', 'decided'])(
    'are the application’s where the database, the ORM or a label says so: %s',
    (name) => {
      expect(originOf('forms__read', name)).toBe('application');
    },
  );

  it.each(['wish', 'second', 'order', 'sum', 'isUrgent', 'day', 'about'])(
    'are from outside where nothing says who wrote them: %s',
    (name) => {
      expect(originOf('forms__read', name)).toBeUndefined();
    },
  );

  it('are from outside where they are computed of others, and where a resource lets a model write them', () => {
    expect([originOf('forms__read', 'size'), originOf('forms__read', 'given')]).toEqual([
      undefined,
      undefined,
    ]);
  });

  it('are from outside where they are a key that is not generated', () => {
    expect(originOf('tables__read', 'number')).toBeUndefined();
  });

  it('say which values they have, so that a choice costs no more than a choice', () => {
    expect(Reflect.get(columnOf('forms__read', 'wish'), 'x-toolloop-values')).toEqual(WISHES);
    expect(Reflect.get(columnOf('forms__read', 'second'), 'x-toolloop-values')).toEqual([
      ...WISHES,
      null,
    ]);
    expect(columnOf('forms__read', 'decided')).not.toHaveProperty('x-toolloop-values');
  });

  it('are all the application’s where the resource as a whole vouches for them, and an action may say more', () => {
    const catalog: ToolCatalog = app.module.get(ToolCatalog);
    expect(catalog.find('forms__read')?.spec.labels).toMatchObject({ returns: 'untrusted' });
    expect(catalog.find('vouched__read')?.spec.labels).toMatchObject({
      returns: 'trusted',
      reads: 'private',
    });
    expect(catalog.find('vouched__update')?.spec.labels).toMatchObject({
      returns: 'trusted',
      reads: 'public',
    });
  });
}

function schemaIn(given: JSONSchema7Definition | undefined): JSONSchema7 {
  return typeof given === 'object' ? given : {};
}
