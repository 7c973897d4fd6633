import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { ScriptedModel } from '@toolloop/testing';
import { BODIES, type Route, type RouteKey, ROUTES } from '@toolloop/protocol/routes';
import { routesOf } from './route-table.js';
import { closeApps, type Served, serveApp } from './served-app.js';

const KEYS = Object.keys(ROUTES) as RouteKey[];

/** The routes that the client has no method for, with the reason. */
const WITHOUT_METHOD: Readonly<Partial<Record<RouteKey, string>>> = {
  'GET /chat/stream': 'for an EventSource, which the client does not need',
  'POST /chat/answer': 'for programs that need no events; `ask` reads them',
  'POST /runs/:runId/resume/answer': 'the same, of a run that waited',
  'GET /questions': '`pending` lists them with everything that waits',
  'POST /questions/:questionId': '`answer` answers everything that a run asks',
  'GET /directives': 'no page of the console shows directives yet',
  'GET /directives/:directiveId': 'the same',
  'POST /directives/:directiveId/cancel': 'the same',
  'POST /directives/:directiveId/redrive': 'the same',
  'GET /health': 'for load balancers',
  'GET /health/ready': 'for load balancers',
  'POST /ai/chat': 'for clients of others',
  'GET /ai/chat/:chatId/stream': 'for clients of others',
  'POST /ai/agui': 'for clients of others',
  'POST /ai/agui/connect': 'for clients of others',
  'POST /ai/assistant': 'for clients of others',
  'POST /ai/assistant/resume-state': 'for clients of others',
  'POST /ai/assistant/resume': 'for clients of others',
  'POST /ai/data-stream': 'for clients of others',
  'GET /v1/models': 'for clients of others',
  'GET /v1/models/:model': 'for clients of others',
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

  it('has a method of the client for every route, or a reason why there is none', () => {
    const source = readFileSync('libs/client/src/client.ts', 'utf8');
    const asked = [...source.matchAll(/'((?:GET|POST|DELETE) \/[^']*)'/g)].map(
      ([, key = '']) => key,
    );
    const used = new Set(asked);
    expect(KEYS.filter((key) => !used.has(key)).toSorted()).toEqual(
      Object.keys(WITHOUT_METHOD).toSorted(),
    );
  });

  it('gives no two values of a request the same name, since a handler takes them in one object', () => {
    const twice = KEYS.filter((key) => {
      const names = Object.values(namesIn(key)).flat();
      return new Set(names).size !== names.length;
    });
    expect(twice).toEqual([]);
  });
});
