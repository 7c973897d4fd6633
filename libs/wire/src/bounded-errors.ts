import type { Fetch } from './http.fetch.js';

/** Bytes of a failed answer that are read: what is wrong stands at its beginning. */
const MOST_BYTES = 64 * 1024;

/** The SDKs read the body of a failed answer to its end, and a hostile server's has none. */
export function boundedErrors(fetch: Fetch): Fetch {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.ok || response.body === null) return response;
    const { status, statusText, headers } = response;
    return new Response(firstOf(response.body), { status, statusText, headers });
  };
}

function firstOf(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  let left = MOST_BYTES;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        controller.enqueue(bytes.subarray(0, left));
        left -= bytes.length;
        if (left <= 0) controller.terminate();
      },
    }),
  );
}
