/** For error messages: what is mostly wrong where a server answers with something else than these APIs do. */
export const WHERE_TO_LOOK = "Does the baseURL end in the API's path, such as /v1?";
