import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import * as M from '@mikro-orm/decorators/legacy';
import { Injectable, type Type as ClassType } from '@nestjs/common';
import { LlmTool, type ToolCallContext, ToolContext, ToolParam } from '@toolloop/core';
import { ResourceGateway, SqlResourceGateway, ToolResource } from '@toolloop/resources';
import { Expose, Type } from 'class-transformer';
import * as T from 'typeorm';
import { type Orm, OrmApp } from './orm-app.js';

const TENANT = { type: 'varchar', length: 40 } as const;
const HIDDEN = { type: 'string', length: 40, hidden: true } as const;

@M.Embeddable()
class Address {
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() city!: string;
}

@T.Entity('skills')
@M.Entity({ tableName: 'skills' })
class Skill {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property(HIDDEN) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() word!: string;
  @T.ManyToMany(() => Person, 'skills')
  @M.ManyToMany({ entity: () => Person, mappedBy: 'skills' })
  @Type(() => Person)
  people!: object;
}

@T.Entity('badges')
@M.Entity({ tableName: 'badges' })
class Badge {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property(HIDDEN) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() colour!: string;
  @T.OneToOne(() => Person, 'badge', { nullable: true })
  @T.JoinColumn({ name: 'person_id' })
  @M.OneToOne({ entity: () => Person, inversedBy: 'badge', nullable: true, fieldName: 'person_id' })
  @Type(() => Person)
  person?: object | null;
}

@T.Entity('chores')
@M.Entity({ tableName: 'chores' })
class Chore {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property(HIDDEN) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() words!: string;
  @T.ManyToOne(() => Person, 'chores')
  @T.JoinColumn({ name: 'person_id' })
  @M.ManyToOne({ entity: () => Person, fieldName: 'person_id' })
  @Type(() => Person)
  person!: object;
}

/** A row with every kind of relation, each exposed from this side alone. */
@T.Entity('people')
@M.Entity({ tableName: 'people' })
class Person {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property(HIDDEN) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() name!: string;
  @T.Column(() => Address)
  @M.Embedded({ entity: () => Address })
  @Expose()
  @Type(() => Address)
  address!: Address;
  @T.ManyToOne(() => Skill, { nullable: true })
  @T.JoinColumn({ name: 'best_id' })
  @M.ManyToOne({ entity: () => Skill, nullable: true, fieldName: 'best_id' })
  @Expose()
  @Type(() => Skill)
  best?: Skill | null;
  @T.ManyToOne(() => Person, { nullable: true })
  @T.JoinColumn({ name: 'boss_id' })
  @M.ManyToOne({ entity: () => Person, nullable: true, fieldName: 'boss_id' })
  @Expose()
  @Type(() => Person)
  boss?: object | null;
  @T.OneToOne(() => Badge, 'person')
  @M.OneToOne({ entity: () => Badge, mappedBy: 'person', nullable: true })
  @Expose()
  @Type(() => Badge)
  badge?: Badge | null;
  @T.OneToMany(() => Chore, 'person')
  @M.OneToMany({ entity: () => Chore, mappedBy: 'person' })
  @Expose()
  @Type(() => Chore)
  chores!: object;
  @T.ManyToMany(() => Skill, 'people')
  @T.JoinTable({
    name: 'people_skills',
    joinColumn: { name: 'person_id' },
    inverseJoinColumn: { name: 'skill_id' },
  })
  @M.ManyToMany({
    entity: () => Skill,
    inversedBy: 'people',
    pivotTable: 'people_skills',
    joinColumn: 'person_id',
    inverseJoinColumn: 'skill_id',
  })
  @Expose()
  @Type(() => Skill)
  skills!: object;
  @T.ManyToMany(() => Person)
  @T.JoinTable({
    name: 'people_friends',
    joinColumn: { name: 'person_id' },
    inverseJoinColumn: { name: 'friend_id' },
  })
  @M.ManyToMany({
    entity: () => Person,
    pivotTable: 'people_friends',
    joinColumn: 'person_id',
    inverseJoinColumn: 'friend_id',
  })
  @Expose()
  @Type(() => Person)
  friends!: object;
}

/** A result that has a row as a part. */
class Found {
  @Expose() @Type(() => Person) person!: Person;
}

const PEOPLE_ENTITIES = [Skill, Badge, Chore, Person];

/** Person 1 has everything, person 2 is her boss and friend. */
const ROWS: readonly string[] = [
  `insert into skills (id, tenant, word) values (1, 'acme', 'ink'), (2, 'acme', 'wood')`,
  `insert into people_skills (person_id, skill_id) values (1, 1), (1, 2)`,
  `insert into people_friends (person_id, friend_id) values (1, 2)`,
  `insert into badges (id, tenant, colour, person_id) values (1, 'acme', 'red', 1)`,
  `insert into chores (id, tenant, words, person_id) values (1, 'acme', 'sweep', 1)`,
];

/** Finds a person of acme by the entity manager of an ORM, with these relations. */
export type FindPerson = (em: unknown, id: number, relations: readonly string[]) => Promise<object>;

export const findByMikroOrm: FindPerson = (em, id, relations) =>
  (em as SqlEntityManager).findOneOrFail(Person, { id }, { populate: relations as never });

export const findByTypeOrm: FindPerson = (em, id, relations) =>
  (em as T.EntityManager).findOneOrFail(Person, {
    where: { tenant: 'acme', id },
    relations: Object.fromEntries(relations.map((name) => [name, true])),
  });

const LOADED = { description: 'The relations.', type: 'array', items: { type: 'string' } } as const;
const EFFECTS = ['read_only', 'state_change'] as const;

type Effect = (typeof EFFECTS)[number];

/** The actions that return a person as found, in the ways that a result may hold a row. */
function ownActions(find: FindPerson, effect: Effect): ClassType {
  @Injectable()
  @ToolResource(Person, { namespace: effect, actions: ['read'] })
  class OwnActions {
    constructor(private readonly gateway: ResourceGateway) {}

    @LlmTool({ description: 'Returns a row.', effect, output: Person })
    row(
      @ToolParam('loaded', LOADED) loaded: readonly string[],
      @ToolContext() context: ToolCallContext,
    ): Promise<object> {
      return this.work(context, (em) => find(em, 1, loaded));
    }

    @LlmTool({ description: 'Returns rows.', effect, output: [Person] })
    rows(
      @ToolParam('loaded', LOADED) loaded: readonly string[],
      @ToolContext() context: ToolCallContext,
    ): Promise<object> {
      return this.work(context, async (em) => [await find(em, 1, loaded)]);
    }

    @LlmTool({ description: 'Returns an object around a row.', effect, output: Found })
    within(
      @ToolParam('loaded', LOADED) loaded: readonly string[],
      @ToolContext() context: ToolCallContext,
    ): Promise<object> {
      return this.work(context, async (em) =>
        Object.assign(new Found(), { person: await find(em, 1, loaded) }),
      );
    }

    private work(
      context: ToolCallContext,
      work: (em: unknown) => Promise<object>,
    ): Promise<object> {
      if (!(this.gateway instanceof SqlResourceGateway))
        throw new TypeError('The gateway is to SQL.');
      return this.gateway.within(context, work);
    }
  }
  return OwnActions;
}

const LISTS: ReadonlySet<string> = new Set(['chores', 'skills', 'friends']);
const SKILLS = [
  { id: 1, word: 'ink' },
  { id: 2, word: 'wood' },
];

/** A row is described by what was loaded of it, whether its tool reads or writes. */
export function describesRelations(orm: Orm, find: FindPerson): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({
      orm,
      entities: PEOPLE_ENTITIES,
      resources: EFFECTS.map((effect) => ownActions(find, effect)),
      prepare: async (sql) => {
        const columns = await sql<{ readonly name: string }>(
          `select column_name as name from information_schema.columns where table_name = 'people'`,
        );
        const city = columns.find(({ name }) => /city$/i.test(name))?.name;
        await sql(ROWS[0] ?? '');
        await sql(
          `insert into people (id, tenant, name, best_id, boss_id, "${city}") values (2, 'acme', 'Bob', null, null, 'Rye'), (1, 'acme', 'Ann', 1, 2, 'Bath')`,
        );
        for (const statement of ROWS.slice(1)) await sql(statement);
      },
    });
  });
  afterAll(() => app?.close());

  describe.each(EFFECTS)('of a tool of effect %s', (effect) => {
    const found = (tool: string, loaded: readonly string[]): Promise<object> =>
      app.read(`${effect}__${tool}`, { loaded: [...loaded] });

    it.each<[loaded: readonly string[], relations: object]>([
      [[], {}],
      [['best'], { best: { id: 1, word: 'ink' } }],
      [['boss'], { boss: { id: 2, name: 'Bob', address: { city: 'Rye' } } }],
      [['badge'], { badge: { id: 1, colour: 'red' } }],
      [['chores'], { chores: [{ id: 1, words: 'sweep' }] }],
      [['skills'], { skills: SKILLS }],
      [['friends'], { friends: [{ id: 2, name: 'Bob', address: { city: 'Rye' } }] }],
      [
        ['chores', 'skills', 'best'],
        { chores: [{ id: 1, words: 'sweep' }], skills: SKILLS, best: { id: 1, word: 'ink' } },
      ],
    ])('are described with %j, and without a list that was not loaded', async (loaded, of) => {
      const person = await found('row', loaded);
      expect(person).toMatchObject({ id: 1, name: 'Ann', address: { city: 'Bath' }, ...of });
      const lists = Object.keys(person).filter((name) => LISTS.has(name));
      expect(lists.filter((name) => !loaded.includes(name))).toEqual([]);
      expect(await found('rows', loaded)).toEqual([person]);
      expect(await found('within', loaded)).toEqual({ person });
      const written = await app.read('state_change__row', { loaded: [...loaded] });
      expect(person).toEqual(written);
    });
  });
}
