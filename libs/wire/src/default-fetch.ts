import { httpFetch, type Fetch } from './http.fetch.js';

/** As it was before the application could replace it. */
const nodeFetch = globalThis.fetch;

/** Where undici keeps the dispatcher that the global `fetch` sends with. */
const DISPATCHERS = ['undici.globalDispatcher.1', 'undici.globalDispatcher.2'].map((name) => Symbol.for(name));

/** The lean `fetch`; but the global one where the application or the environment have told that one to go another way, through a proxy for instance. */
export function defaultFetch(): Fetch {
  const lean = httpFetch();
  return (input, init) => (isRerouted() ? globalThis.fetch(input, init) : lean(input, init));
}

function isRerouted(): boolean {
  return process.env.NODE_USE_ENV_PROXY !== undefined || globalThis.fetch !== nodeFetch || DISPATCHERS.some(isForeign);
}

function isForeign(symbol: symbol): boolean {
  const dispatcher: unknown = Reflect.get(globalThis, symbol);
  return typeof dispatcher === 'object' && dispatcher !== null && dispatcher.constructor.name !== 'Agent';
}
