import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { ScriptedModel } from '@toolloop/testing';
import { BODIES, type Route, type RouteKey, ROUTES } from '@toolloop/protocol/routes';
import { routesOf } from './route-table.js';
import { closeApps, type Served, serveApp } from './served-app.js';

const JSON_TYPE = 'application/json';
const KEYS = Object.keys(ROUTES) as RouteKey[];

/** The routes that answer with a stream and have no method of the client, with the reason. */
const WITHOUT_METHOD: Readonly<Partial<Record<string, string>>> = {
  'GET /chat/stream': 'for an EventSource, which the client does not need',
  'GET /ai/chat/:chatId/stream': 'for clients of others',
  'POST /ai/chat': 'for clients of others',
  'POST /ai/agui': 'for clients of others',
  'POST /ai/agui/connect': 'for clients of others',
  'POST /ai/assistant': 'for clients of others',
  'POST /ai/assistant/resume': 'for clients of others',
  'POST /ai/data-stream': 'for clients of others',
  'POST /v1/chat/completions': 'for clients of others',
};

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: unknown;
  readonly responses: Readonly<Record<string, unknown>>;
}

let served: Served;
let document: OpenAPIObject;

beforeAll(async () => {
  served = await serveApp({ model: new ScriptedModel([]) });
  document = SwaggerModule.createDocument(served.app, new DocumentBuilder().build());
});
afterAll(closeApps);

/** The routes of the document, as the table names them. */
function documented(): ReadonlyMap<string, Operation> {
  return new Map(
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => [
        `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
        operation as Operation,
      ]),
    ),
  );
}

function namesIn(key: RouteKey): Readonly<Record<'path' | 'query' | 'body', readonly string[]>> {
  const { query, body }: Route = ROUTES[key];
  return {
    path: [...key.matchAll(/:(\w+)/g)].map(([, name = '']) => name),
    query: Object.keys(query?.properties ?? {}),
    body: typeof body === 'string' ? Object.keys(BODIES[body].properties ?? {}) : [],
  };
}

describe('the table of routes', () => {
  it('has every route that Nest serves and no other', () => {
    expect(routesOf(served).toSorted()).toEqual(KEYS.toSorted());
  });

  it('is in the OpenAPI document, with every member of a path, a query and a body', () => {
    const operations = documented();
    expect([...operations.keys()].toSorted()).toEqual(KEYS.toSorted());
    const untold = KEYS.flatMap((key) => {
      const { parameters = [], requestBody, responses } = operations.get(key) ?? { responses: {} };
      const { path, query } = namesIn(key);
      const { body, answers }: Route = ROUTES[key];
      const told = parameters
        .filter(({ in: place }) => place !== 'header')
        .map(({ in: place, name }) => `${place} ${name}`);
      const wanted = [
        ...path.map((name) => `path ${name}`),
        ...query.map((name) => `query ${name}`),
      ];
      const isWhole =
        JSON.stringify(told.toSorted()) === JSON.stringify(wanted.toSorted()) &&
        (body === undefined) === (requestBody === undefined) &&
        Object.keys(answers).every((status) => status in responses);
      return isWhole ? [] : [key];
    });
    expect(untold).toEqual([]);
    for (const [name, { properties = {} }] of Object.entries(BODIES)) {
      const schema = document.components?.schemas?.[name];
      const told = schema && 'properties' in schema ? Object.keys(schema.properties ?? {}) : [];
      expect([name, told]).toEqual([name, Object.keys(properties)]);
    }
  });

  it('is reached by the client: by `request`, and by a method or a reason where a stream answers', () => {
    const source = readFileSync('libs/client/src/client.ts', 'utf8');
    const asked = new Set(
      [...source.matchAll(/'((?:GET|POST|DELETE) \/[^']*)'/g)].map(([, key = '']) => key),
    );
    const streams = KEYS.filter((key) => {
      const { answers }: Route = ROUTES[key];
      return Object.values(answers).some(({ type = JSON_TYPE }) => type !== JSON_TYPE);
    });
    const others = [...streams, 'POST /v1/chat/completions'].filter((key) => !asked.has(key));
    expect(others.toSorted()).toEqual(Object.keys(WITHOUT_METHOD).toSorted());
  });

  it('gives no two values of a request the same name, since a handler takes them in one object', () => {
    const twice = KEYS.filter((key) => {
      const names = Object.values(namesIn(key)).flat();
      return new Set(names).size !== names.length;
    });
    expect(twice).toEqual([]);
  });
});
