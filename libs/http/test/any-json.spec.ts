import { request } from 'node:http';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ANY_JSON, ANY_TEXTS, nested } from './any-json.js';
import { matches, type Row, ROWS, routesOf } from './route-table.js';
import {
  ask,
  closeApps,
  eventsIn,
  headersOf,
  type Platform,
  type Served,
  serveApp,
} from './served-app.js';

/** The requests that are under way at once. */
const AT_ONCE = 8;

/**
 * The persons who ask: the owner of the run, and an operator, whom the routes of operators let in.
 */
const ASKING = { owner: 'alice', operator: 'ops' };

let served: Served;
/**
 * The application whose routes and bodies are described: Nest's description of them is the same on
 * every platform.
 */
let described: Served;
let document: OpenAPIObject;
let ids: Readonly<Record<string, string>>;

async function serve(platform: Platform): Promise<void> {
  const model = new ScriptedModel([
    calls(call('notes__delete', { id: 'n-1' })),
    ...Array.from({ length: 5000 }, () => text('Hello.')),
  ]);
  served = await serveApp({
    model,
    platform,
    http: { limits: { requests: 0, openStreams: 1000 } },
  });
  described = await serveApp({ model: new ScriptedModel([]) });
  document = SwaggerModule.createDocument(described.app, new DocumentBuilder().build());
  const events = eventsIn(
    await (
      await ask(served, ASKING.owner, { message: 'Delete it', conversationId: 'talk' })
    ).text(),
  );
  const asked = events.find((event) => event.type === 'approval-request');
  ids = { RUN: asked?.runId ?? '', APPROVAL: asked?.approval.approvalId ?? '' };
  expect(ids['APPROVAL']).not.toBe('');
}

const named = (value: string): string =>
  value.replaceAll(/RUN|APPROVAL/g, (name) => ids[name] ?? name);

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly isChunked?: boolean;
}

/** The status of an answer, which is not read to its end. */
function statusOf(
  { method, path, body, isChunked = false }: Asked,
  person: string,
): Promise<number> {
  const length = isChunked
    ? { 'transfer-encoding': 'chunked' }
    : { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const asking = request(
      served.url + named(path),
      { method, headers: { ...headersOf(person), ...length } },
      (response) => {
        resolve(response.statusCode ?? 0);
        response.on('error', () => undefined);
        response.destroy();
      },
    );
    asking.on('error', reject);
    asking.end(named(body));
  });
}

/**
 * The answers of the server's own mistakes. What a run ended with may be the model's (502) or the
 * storage's (503).
 */
async function mistakesIn(wanted: readonly Asked[]): Promise<string[]> {
  const queue = [...wanted];
  const mistakes: string[] = [];
  const work = async (): Promise<void> => {
    for (let next = queue.pop(); next; next = queue.pop())
      for (const person of Object.values(ASKING)) {
        const status = await statusOf(next, person);
        if (status < 200 || status === 500)
          mistakes.push(`${status} ${next.method} ${next.path} ${next.body.slice(0, 200)}`);
      }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return mistakes;
}

type Json = Readonly<Record<string, unknown>>;

interface Operation {
  readonly requestBody?: unknown;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}

function operationOf(row: Row): Operation | undefined {
  const route = routesOf(described).find((each) => matches(each, row)) ?? '';
  const [method = '', path = ''] = route.split(' ');
  const item = document.paths[path.replaceAll(/:(\w+)/g, '{$1}')] as
    Readonly<Record<string, Operation>> | undefined;
  return item?.[method.toLowerCase()];
}

/** The fields that the documentation names of a route's body. */
function documentedFields(row: Row): readonly string[] {
  const [, name = ''] =
    /schemas\/(\w+)/.exec(JSON.stringify(operationOf(row)?.requestBody ?? '')) ?? [];
  const schema = document.components?.schemas?.[name];
  return schema && 'properties' in schema ? Object.keys(schema.properties ?? {}) : [];
}

/** Every variant of a value in which one of its parts is another value, told by its JSON. */
function* withOnePart(value: unknown, part: string): Generator<string> {
  yield part;
  if (typeof value !== 'object' || value === null) return;
  for (const [name, inner] of Object.entries(value))
    for (const changed of withOnePart(inner, part)) {
      const written = Object.entries(value).map(
        ([other, kept]) => [other, other === name ? changed : JSON.stringify(kept)] as const,
      );
      yield Array.isArray(value)
        ? `[${written.map(([, json]) => json).join(',')}]`
        : `{${written.map(([other, json]) => `${JSON.stringify(other)}:${json}`).join(',')}}`;
    }
}

function bodiesOf(row: Row, parts: readonly string[]): readonly string[] {
  const body: Json = {
    ...Object.fromEntries(documentedFields(row).map((field) => [field, 'x'])),
    ...row[4],
  };
  const sample: Json = { ...row[4] };
  const bodies = parts.flatMap((part) => [
    ...withOnePart(sample, part),
    ...Object.keys(body)
      .filter((field) => !(field in sample))
      .map((field) => {
        const kept = JSON.stringify(sample).slice(1, -1);
        return `{${kept}${kept === '' ? '' : ','}${JSON.stringify(field)}:${part}}`;
      }),
  ]);
  return [...new Set(bodies)];
}

/** The queries in which one parameter is any text, a list or an object. */
function queriesOf(row: Row): readonly string[] {
  const names = operationOf(row)?.parameters?.filter(({ in: place }) => place === 'query') ?? [];
  return ['x', ...names.map(({ name }) => name)].flatMap((name) =>
    ANY_TEXTS.flatMap((value) => [
      `${name}=${value}`,
      `${name}[]=${value}`,
      `${name}[a]=${value}`,
      `${name}=${value}&${name}=x`,
    ]),
  );
}

const WITHOUT_BODY = ROWS.filter(([method]) => method === 'GET');
const WITH_BODY = ROWS.filter(([method]) => method !== 'GET');

/** The bodies that only their depth makes unreadable, with the status by which each is refused. */
const DEEP: readonly (readonly [levels: number, form: 'lists' | 'objects'])[] = [
  [33, 'lists'],
  [33, 'objects'],
  [5000, 'lists'],
  [5000, 'objects'],
];

describe.each<Platform>(['express', 'fastify'])('a route on %s', (platform) => {
  beforeAll(() => serve(platform));
  afterAll(closeApps);

  it.each(WITH_BODY)(
    'answers %s %s without a mistake of its own, whichever JSON stands in any of its fields',
    async (...row) => {
      const [method, path] = row;
      const bodies = bodiesOf(row, ANY_JSON);
      expect(bodies.length).toBeGreaterThanOrEqual(ANY_JSON.length);
      expect(await mistakesIn(bodies.map((body) => ({ method, path, body })))).toEqual([]);
    },
  );

  it.each(WITHOUT_BODY)(
    'answers %s %s without a mistake of its own, whichever text stands in its query',
    async (...row) => {
      const [method, path] = row;
      const queries = queriesOf(row).map(
        (query) => `${path}${path.includes('?') ? '&' : '?'}${query}`,
      );
      expect(await mistakesIn(queries.map((query) => ({ method, path: query, body: '' })))).toEqual(
        [],
      );
    },
  );

  it.each(WITH_BODY)(
    'refuses a body of %s %s that is nested too deep by 400, with a length or without',
    async (...row) => {
      const [method, path, , , sample] = row;
      for (const [levels, form] of DEEP)
        for (const isChunked of [false, true]) {
          const fields = Object.keys(sample ?? {});
          const inner = nested(levels, form);
          const bodies = [inner, `{${JSON.stringify(fields[0] ?? 'x')}:${inner}}`];
          for (const body of bodies)
            expect(await statusOf({ method, path, body, isChunked }, ASKING.operator)).toBe(400);
        }
    },
  );
});
