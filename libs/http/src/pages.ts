import type { ServerResponse } from 'node:http';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { MOST_LISTED } from '@toolloop/protocol/routes';
import type { HttpRequest } from './http-options.js';

/**
 * The pages of a list. Behind each of them that has a next one stands its address, in the header
 * `Link` as `rel="next"`, relative to that of the request, so that it holds behind any prefix.
 */
export class Pages {
  constructor(
    private readonly url: string,
    private readonly response: Pick<ServerResponse, 'setHeader'>,
  ) {}

  /** Reads a page, and one entry more, which tells that there is a next page. */
  async of<Selection extends PageOf, Entry>(
    selection: Selection,
    read: (selection: Selection) => Promise<readonly Entry[]>,
    cursorOf: (last: Entry) => Cursor,
  ): Promise<readonly Entry[]> {
    const { limit = DEFAULT_LISTED } = selection;
    const wanted = Math.min(limit + 1, MOST_LISTED);
    const found = await read({ ...selection, limit: wanted });
    const page = found.slice(0, limit);
    const last = page.at(-1);
    if (last !== undefined && found.length === wanted) this.link(cursorOf(last));
    return page;
  }

  /** Notes the address of the next page. */
  link(cursor: Cursor): void {
    const query = new URLSearchParams(this.url.split('?')[1]);
    for (const [name, value] of Object.entries(cursor)) query.set(name, String(value));
    this.response.setHeader('link', `<?${query.toString()}>; rel="next"`);
  }
}

const DEFAULT_LISTED = 100;

/** The part of a selection that says which page of it is wanted. */
interface PageOf {
  readonly limit?: number | undefined;
}

/** The members of a query that name the end of a page, such as `{ after: runId }`. */
type Cursor = Readonly<Record<string, string | number>>;

/** The parameter receives the pages of the list that is asked for. */
export const ListPages = createParamDecorator(
  (_options: unknown, context: ExecutionContext): Pages => {
    const http = context.switchToHttp();
    const response = http.getResponse<ServerResponse & { readonly raw?: ServerResponse }>();
    return new Pages(http.getRequest<HttpRequest>().url, response.raw ?? response);
  },
);
