import {
  applyDecorators,
  createParamDecorator,
  type ExecutionContext,
  HttpCode,
  RequestMapping,
  RequestMethod,
  SetMetadata,
} from '@nestjs/common';
import {
  type AnswerOf,
  type Asks,
  type Route as RouteOfTable,
  type RouteKey,
  ROUTES,
} from '@toolloop/protocol/routes';
import { readRequest, type RequestParts } from './read-request.js';

/**
 * Makes a method the handler of a route of the table, whose path, method and status it has. Its
 * first parameter receives what the request asks of the route, once that is checked. A handler that
 * takes something else, or answers with something else, does not compile.
 *
 * @example
 * @Route('GET /runs/:runId')
 * get({ runId }: Asks<'GET /runs/:runId'>, @CurrentCaller() caller: Caller) {
 *   return this.runs.get(runId, caller);
 * }
 */
export function Route<Key extends RouteKey>(
  key: Key,
): <Method extends Handler<Key>>(
  target: object,
  name: string,
  method: TypedPropertyDescriptor<Method>,
) => void {
  const route: RouteOfTable = ROUTES[key];
  const [method, path = ''] = key.split(' /');
  const [status] = Object.keys(route.answers).map(Number);
  const asksNothing = !path.includes(':') && !route.query && typeof route.body !== 'string';
  return (target, name, handler) => {
    if (!asksNothing) Asked()(target, name, 0);
    applyDecorators(
      SetMetadata(ROUTE, key),
      RequestMapping({ path, method: METHODS[method ?? ''] }),
      HttpCode(status ?? 200),
    )(target, name, handler);
  };
}

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

/** The parameter receives what the request asks of its route. */
const Asked = createParamDecorator((_options: unknown, context: ExecutionContext) => {
  const key = routeOf(context.getHandler());
  return key && readRequest(key, context.switchToHttp().getRequest<RequestParts>());
});
