import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Expose, Type } from 'class-transformer';
import {
  Column,
  DataSource,
  Entity,
  PrimaryGeneratedColumn,
  Tree,
  TreeChildren,
  TreeParent,
} from 'typeorm';
import { type Orm, OrmApp, TYPE_ORM, TYPE_ORM_ON_MARIADB } from './orm-app.js';
import { describeMariaDb } from './typeorm-storage.js';

const TENANT = { type: 'varchar', length: 40 } as const;

@Entity('closed')
@Tree('closure-table')
class Closed {
  @PrimaryGeneratedColumn() @Expose() id!: number;
  @Column(TENANT) tenant!: string;
  @Column({ type: 'varchar' }) @Expose() name!: string;
  @TreeParent({ onDelete: 'CASCADE' }) @Expose() @Type(() => Closed) parent?: Closed | null;
  @TreeChildren() @Expose() @Type(() => Closed) children!: Closed[];
}

@Entity('pathed')
@Tree('materialized-path')
class Pathed {
  @PrimaryGeneratedColumn() @Expose() id!: number;
  @Column(TENANT) tenant!: string;
  @Column({ type: 'varchar' }) @Expose() name!: string;
  @TreeParent({ onDelete: 'CASCADE' }) @Expose() @Type(() => Pathed) parent?: Pathed | null;
  @TreeChildren() @Expose() @Type(() => Pathed) children!: Pathed[];
}

@Entity('nested')
@Tree('nested-set')
class Nested {
  @PrimaryGeneratedColumn() @Expose() id!: number;
  @Column(TENANT) tenant!: string;
  @Column({ type: 'varchar' }) @Expose() name!: string;
  @TreeParent() @Expose() @Type(() => Nested) parent?: Nested | null;
  @TreeChildren() @Expose() @Type(() => Nested) children!: Nested[];
}

@ToolResource(Closed, { namespace: 'closed', actions: ['read', 'create', 'update', 'destroy'] })
class ClosedTools {}
@ToolResource(Pathed, { namespace: 'pathed', actions: ['read', 'create', 'update', 'destroy'] })
class PathedTools {}
@ToolResource(Nested, { namespace: 'nested', actions: ['read'] })
class NestedTools {}
@ToolResource(Nested, { namespace: 'written', actions: ['read', 'create'] })
class WrittenTools {}

const ENTITIES = [Closed, Pathed, Nested];

/** What a tree of TypeORM holds after tools have written to it: what its own repository says. */
function keepsTrees(orm: Orm): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({
      orm,
      entities: ENTITIES,
      resources: [ClosedTools, PathedTools, NestedTools],
    });
  });
  afterAll(() => app?.close());

  it.each([
    ['closed', Closed],
    ['pathed', Pathed],
  ])('are whole after rows were created, moved and removed (%s)', async (tool, entity) => {
    const repository = app.module.get(DataSource).getTreeRepository<Closed>(entity);
    const made = async (name: string, parent?: number): Promise<number> => {
      const { id } = await app.read<{ readonly id: number }>(`${tool}__create`, {
        input: { name, ...(parent !== undefined && { parent }) },
      });
      return id;
    };
    const below = async (id: number): Promise<readonly string[]> => {
      const found = await repository.findDescendants(await repository.findOneByOrFail({ id }));
      return found.map(({ name }) => name).toSorted();
    };
    const above = async (id: number): Promise<readonly string[]> => {
      const found = await repository.findAncestors(await repository.findOneByOrFail({ id }));
      return found.map(({ name }) => name).toSorted();
    };
    const root = await made('a');
    const other = await made('b');
    const middle = await made('c', root);
    const leaf = await made('d', middle);
    expect([await below(root), await above(leaf)]).toEqual([
      ['a', 'c', 'd'],
      ['a', 'c', 'd'],
    ]);
    await app.read(`${tool}__update`, { id: middle, input: { parent: other } });
    expect([await below(root), await below(other), await above(leaf)]).toEqual([
      ['a'],
      ['b', 'c', 'd'],
      ['b', 'c', 'd'],
    ]);
    expect(
      await app.error(`${tool}__update`, { id: other, input: { parent: leaf } }),
    ).toMatchObject({
      source: { pointer: '/input/parent' },
    });
    expect(
      await app.error(`${tool}__update`, { id: other, input: { parent: other } }),
    ).toMatchObject({
      source: { pointer: '/input/parent' },
    });
    await app.read(`${tool}__update`, { id: middle, clear: ['parent'], input: {} });
    expect([await below(other), await below(middle)]).toEqual([['b'], ['c', 'd']]);
    expect(
      await app.read(`${tool}__read`, {
        filter: { children: { name: { eq: 'd' } } },
        load: ['children', 'parent'],
      }),
    ).toMatchObject({
      rows: [{ id: middle, parent: null, children: [{ id: leaf }] }],
    });
    await app.read(`${tool}__destroy`, { id: middle });
    expect([await below(root), await below(other)]).toEqual([['a'], ['b']]);
  });

  it('keep the trees of two tenants apart', async () => {
    const { id } = await app.read<{ readonly id: number }>(
      'closed__create',
      { input: { name: 'theirs' } },
      'globex',
    );
    expect(
      await app.error('closed__create', { input: { name: 'mine', parent: id } }),
    ).toMatchObject({
      source: { pointer: '/input/parent' },
    });
  });

  it('are read as a nested set, and stop the start where tools would write to one', async () => {
    expect(await app.read('nested__read')).toEqual({ rows: [] });
    const starting = OrmApp.start({ orm, entities: ENTITIES, resources: [WrittenTools] }).then(
      (one) => one.close(),
    );
    await expect(starting).rejects.toThrow(ConfigurationError);
    await expect(starting).rejects.toThrow('nested set');
  });
}

describe('trees with TypeORM', () => {
  keepsTrees(TYPE_ORM);
});

describeMariaDb('trees with TypeORM on MariaDB', () => {
  keepsTrees(TYPE_ORM_ON_MARIADB);
});
