import type { ToolCatalog } from '../catalog/tool.catalog.js';
import { unknownOptions } from '../findings/unknown-options.js';
import { ConfigurationError, InvalidRequestError } from '../protocol/errors.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest } from '../protocol/loop-request.js';
import { choiceFindings } from './choice-findings.js';
import { REQUEST_OPTIONS } from './loop-option-names.js';
import { REQUEST_VALUES, shapeFindings } from './loop-option-values.js';
import { stopFindings } from './stop.condition.js';

const AT = 'request';

/** Throws `ConfigurationError` for an option that does not exist, for a value that one does not take, and for a stop condition that could never hold. */
export function assertRequest<Actor>(request: LoopRequest<unknown, Actor>, profile: LoopProfile, catalog: ToolCatalog): void {
  const shapes = [
    ...unknownOptions(request, REQUEST_OPTIONS, AT),
    ...choiceFindings({ ...request }, AT),
    ...shapeFindings(request, REQUEST_VALUES, AT),
  ];
  if (shapes.length > 0) throw new ConfigurationError([...shapes, ...stopFindings(request.stopWhen, AT, catalog)], AT);
  const announced = [request, profile].flatMap(({ injection }) => injection || []).flatMap((strategy) => strategy.announced ?? []);
  const findings = stopFindings(request.stopWhen, AT, catalog, announced);
  if (findings.length > 0) throw new ConfigurationError(findings, AT);
}

/** Throws `InvalidRequestError` for ids that name nothing. They are the client's words more often than the application's. */
export function assertIds(request: Pick<LoopRequest, 'requestId' | 'conversationId'>): void {
  for (const name of ['requestId', 'conversationId'] as const) {
    const id: unknown = request[name];
    if (id !== undefined && (typeof id !== 'string' || id === ''))
      throw new InvalidRequestError('invalid_request', `The \`${name}\` is empty or not a string. Give a string, or leave it out.`);
  }
}

/** The same for what decides on a list of tools. */
export function assertListing(request: object): void {
  const findings = shapeFindings(request, REQUEST_VALUES, AT);
  if (findings.length > 0) throw new ConfigurationError(findings, AT);
}
