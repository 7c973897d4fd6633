import type { ByteSource } from './byte-source.js';

/**
 * Creates a response whose bytes come from Node. A web stream of them is made for the first reader
 * that asks for one: the readers of this library take the bytes.
 */
export function leanResponse(source: ByteSource, init: ResponseInit): Response {
  made ??= defineLeanResponse();
  return new made(source, init);
}

let made: ReturnType<typeof defineLeanResponse> | undefined;

/** Defines the class with the first answer: the global `Response` loads Node's HTTP client. */
function defineLeanResponse() {
  return class LeanResponse extends Response {
    private made: Response | undefined;

    constructor(
      private readonly source: ByteSource,
      init: ResponseInit,
    ) {
      super(null, init);
    }

    override get body(): Response['body'] {
      return this.web.body;
    }

    override get bodyUsed(): boolean {
      return this.made?.bodyUsed ?? false;
    }

    override arrayBuffer(): Promise<ArrayBuffer> {
      return this.web.arrayBuffer();
    }

    override blob(): ReturnType<Response['blob']> {
      return this.web.blob();
    }

    override bytes(): ReturnType<Response['bytes']> {
      return this.web.bytes();
    }

    override clone(): Response {
      return this.web.clone();
    }

    override formData(): ReturnType<Response['formData']> {
      return this.web.formData();
    }

    override json(): Promise<unknown> {
      return this.web.json();
    }

    override text(): Promise<string> {
      return this.web.text();
    }

    private get web(): Response {
      this.made ??= new Response(toWebStream(this.source), this);
      return this.made;
    }
  };
}

/** Makes a web stream of bytes, which reads no faster than its reader. */
export function toWebStream(bytes: ByteSource): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        const chunk = await bytes.read();
        if (chunk === undefined) controller.close();
        else controller.enqueue(chunk);
      },
      cancel: () => bytes.close(),
    },
    { highWaterMark: 0 },
  );
}
