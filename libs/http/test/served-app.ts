import {
  type DynamicModule,
  type INestApplication,
  Injectable,
  Module,
  type Type,
} from '@nestjs/common';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ExpressAdapter } from '@nestjs/platform-express';
import { Test } from '@nestjs/testing';
import {
  ActorDirectory,
  type LanguageModel,
  LlmTool,
  type LoopEvent,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import {
  type ToolLoopHttpExtras,
  ToolLoopHttpModule,
  type ToolLoopHttpOptions,
} from '@toolloop/http';

/** A person of the tests, whose token is its id. */
export class Person {
  constructor(
    readonly id: string,
    readonly tenant: string,
    readonly isOperator = false,
  ) {}
}

export const PEOPLE: readonly Person[] = [
  new Person('alice', 'acme'),
  new Person('carl', 'acme'),
  new Person('ops', 'acme', true),
  new Person('bob', 'globex'),
];

@Injectable()
class PersonDirectory extends ActorDirectory<Person> {
  override find(actorId: string, tenant: string): Promise<Person | undefined> {
    return Promise.resolve(
      PEOPLE.find((person) => person.id === actorId && person.tenant === tenant),
    );
  }
}

@ToolProvider({ namespace: 'notes' })
export class NoteTools {
  @LlmTool({ description: 'Reads a note.', effect: 'read_only', reveal: 'all' })
  read(@ToolParam('id', { description: 'The id of the note.' }) id: string): string {
    return `note ${id}`;
  }

  @LlmTool({ description: 'Deletes a note.', effect: 'state_change', reveal: 'all' })
  delete(@ToolParam('id', { description: 'The id of the note.' }) id: string): string {
    return `deleted ${id}`;
  }
}

/** Tools that no policy names. */
@ToolProvider({ namespace: 'vault' })
class VaultTools {
  @LlmTool({ description: 'Opens the vault.', effect: 'state_change', reveal: 'all' })
  open(): string {
    return 'open';
  }
}

@Module({ providers: [NoteTools, VaultTools] })
class NotesModule {}

export type Platform = 'express' | 'fastify';

export interface Served {
  readonly url: string;
  readonly app: INestApplication;
}

interface AppOptions {
  readonly model: LanguageModel;
  readonly http?: Partial<ToolLoopHttpOptions> & ToolLoopHttpExtras;
  readonly loop?: Partial<ToolLoopOptions>;
  readonly modules?: readonly (Type | DynamicModule)[];
  readonly platform?: Platform;
}

const open = new Set<INestApplication>();

export async function closeApps(): Promise<void> {
  await Promise.all([...open].map((app) => app.close()));
  open.clear();
}

/** An application with the routes, on a free port. */
export async function serveApp({
  model,
  http,
  loop,
  modules = [],
  platform = 'express',
}: AppOptions): Promise<Served> {
  const built = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model,
        policy: {
          version: 'test-1',
          allow: ['notes__*'],
          requireApproval: [{ tools: ['notes__delete'], reason: 'A person looks at it.' }],
        },
        audit: { key: 'a key of more than thirty-two bytes, for tests' },
        candidates: { strict: { version: 'strict-1', allow: [] } },
        operators: (actor) => actor instanceof Person && actor.isOperator,
        providers: [{ provide: ActorDirectory, useClass: PersonDirectory }],
        ...loop,
      }),
      NotesModule,
      ToolLoopHttpModule.forRoot({ identity: identify, ...http }),
      ...modules,
    ],
  }).compile();
  const adapter =
    platform === 'express'
      ? new ExpressAdapter()
      : new FastifyAdapter({ forceCloseConnections: true });
  const app = built.createNestApplication(adapter, {
    logger: ['fatal'],
    forceCloseConnections: true,
  });
  open.add(app);
  await app.listen(0, '127.0.0.1');
  return { url: await app.getUrl(), app };
}

const identify: ToolLoopHttpOptions['identity'] = ({ headers }) => {
  const person = PEOPLE.find(({ id }) => headers.authorization === `Bearer ${id}`);
  return person && { actor: person, tenant: person.tenant };
};

export function headersOf(person: string | undefined): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(person !== undefined && { authorization: `Bearer ${person}` }),
  };
}

export function ask(
  served: Served,
  person: string,
  body: unknown,
  path = '/chat',
): Promise<Response> {
  return fetch(served.url + path, {
    method: 'POST',
    headers: headersOf(person),
    body: JSON.stringify(body),
  });
}

export function eventsIn(stream: string): LoopEvent[] {
  const data = stream.split('\n').filter((line) => line.startsWith('data: '));
  return data.map((line) => JSON.parse(line.slice('data: '.length)) as LoopEvent);
}

/** Waits until something holds, for as long as the test may take. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Waits until a count stands still: what is read no further has no other sign. */
export async function settled(count: () => number): Promise<number> {
  for (let [last, same] = [-1, 0]; ;) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    same = count() === last ? same + 1 : 0;
    last = count();
    if (same >= 20 && last > 0) return last;
  }
}
