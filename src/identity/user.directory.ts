import { Injectable } from '@nestjs/common';
import { ActorDirectory } from '@toolloop/core';
import { userOf } from './demo-users.js';
import type { User } from './user.js';

/** Loads who acts where there is no request: in whose name a refund is paid is decided by who they are then. */
@Injectable()
export class UserDirectory extends ActorDirectory<User> {
  override find(actorId: string, tenant: string): Promise<User | undefined> {
    return Promise.resolve(userOf(actorId, tenant));
  }
}
