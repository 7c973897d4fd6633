import {
  applyDecorators,
  createParamDecorator,
  type ExecutionContext,
  HttpCode,
  RequestMapping,
  RequestMethod,
  SetMetadata,
} from '@nestjs/common';
import { type AnswerOf, type Asks, type RouteKey, ROUTES } from '@toolloop/protocol/routes';
import { readRequest, type RequestParts } from './read-request.js';

const ROUTE = 'toolloop:route';

/** A value that is served as the answer; what says its JSON itself is another for the compiler. */
type Served<Answer> = Answer | { toJSON(): unknown };

/**
 * The handler of a route: its first parameter takes what the route asks, if that is anything, and
 * it returns the answer of the table, or sends a stream.
 */
type Handler<Key extends RouteKey> = (
  ...args: keyof Asks<Key> extends never ? never[] : [asked: Asks<Key>, ...others: never[]]
) => [AnswerOf<Key>] extends [never]
  ? unknown
  : Served<AnswerOf<Key>> | Promise<Served<AnswerOf<Key>>>;

/**
 * Makes a method the handler of a route of the table, whose path, method and status it has. A
 * handler that takes something else, or answers with something else, does not compile.
 *
 * @example
 * @Route('GET /runs/:runId')
 * get(@Asked() { runId }: Asks<'GET /runs/:runId'>): Promise<Run> {
 *   return this.runs.get(runId);
 * }
 */
export function Route<Key extends RouteKey>(
  key: Key,
): <Method extends Handler<Key>>(
  target: object,
  name: string,
  method: TypedPropertyDescriptor<Method>,
) => void {
  const [method, path] = key.split(' /');
  const [status] = Object.keys(ROUTES[key].answers).map(Number);
  return applyDecorators(
    SetMetadata(ROUTE, key),
    RequestMapping({ path, method: METHODS[method ?? ''] }),
    HttpCode(status ?? 200),
  );
}

const METHODS: Readonly<Record<string, RequestMethod>> = {
  GET: RequestMethod.GET,
  POST: RequestMethod.POST,
  DELETE: RequestMethod.DELETE,
};

/** The route that a method handles; undefined for a method that handles none. */
export function routeOf(handler: unknown): RouteKey | undefined {
  const key: unknown =
    typeof handler === 'function' ? Reflect.getMetadata(ROUTE, handler) : undefined;
  return isRouteKey(key) ? key : undefined;
}

function isRouteKey(key: unknown): key is RouteKey {
  return typeof key === 'string' && Object.hasOwn(ROUTES, key);
}

/** The parameter receives what the request asks of its route, once it is checked. */
export const Asked = createParamDecorator((_options: unknown, context: ExecutionContext) => {
  const key = routeOf(context.getHandler());
  return key && readRequest(key, context.switchToHttp().getRequest<RequestParts>());
});
