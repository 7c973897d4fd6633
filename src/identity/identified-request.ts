import type { Request } from 'express';
import type { User } from './user.js';

/** A request, after a guard has said whose it is. */
export interface IdentifiedRequest extends Request {
  user?: User;
}
