import type { IncomingMessage } from 'node:http';
import { type Duplex, pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { ToolError } from '@toolloop/core';
import { connectionFailure } from './page-request.js';

/** The body of a page, cut at a limit. */
export interface PageBody {
  readonly bytes: Buffer;
  /** `true` if the page is longer. */
  readonly truncated: boolean;
}

/**
 * Reads at most `limit` bytes of a body and closes the connection. Bytes are counted after
 * decompression, a small piece at a time, so that a few kilobytes cannot become gigabytes.
 *
 * @throws ToolError if the body is broken, or compressed in an unknown way
 */
export async function readBody(message: IncomingMessage, limit: number): Promise<PageBody> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of uncompressed(message)) {
      if (!Buffer.isBuffer(part)) continue;
      parts.push(part);
      size += part.length;
      if (size > limit) break;
    }
  } catch (error) {
    throw connectionFailure(error);
  } finally {
    message.destroy();
  }
  return { bytes: Buffer.concat(parts).subarray(0, limit), truncated: size > limit };
}

function uncompressed(message: IncomingMessage): Readable {
  const encoding = message.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (encoding === 'identity' || encoding === '') return message;
  return pipeline(message, decompressor(encoding), () => undefined); // errors reach the reader
}

function decompressor(encoding: string): Duplex {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case 'br':
      return createBrotliDecompress();
    default:
      throw new ToolError(
        'The page is compressed in a way that cannot be read. Use another source.',
      );
  }
}
