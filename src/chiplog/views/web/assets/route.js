// @ts-check
/** The address of the page, which holds the whole view, so that a link restores it. */

/** @typedef {{page: string, key: string, tab: string, params: URLSearchParams}} Route */

/** @returns {Route} */
export function here() {
  const [path, query] = (location.hash.slice(1) || "/runs").split("?");
  const [, page, key, tab] = path.split("/");
  return { page: page || "runs", key: key ?? "", tab: tab ?? "", params: new URLSearchParams(query ?? "") };
}

/**
 * The address of a view.
 * @param {string} path
 * @param {Record<string, any>|URLSearchParams} [params]
 */
export function link(path, params = {}) {
  const search = params instanceof URLSearchParams ? params : new URLSearchParams(nonEmpty(params));
  const query = search.toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

/**
 * Change parameters of the address without navigating.
 * @param {Record<string, any>} changes  null removes one
 */
export function setParams(changes) {
  const { params } = here();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "" || value === false || value === undefined) params.delete(key);
    else params.set(key, String(value));
  }
  const query = params.toString();
  history.replaceState(null, "", `${location.hash.split("?")[0] || "#/runs"}${query ? `?${query}` : ""}`);
}

/** @param {Record<string, any>} params */
function nonEmpty(params) {
  return Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null && value !== "" && value !== undefined));
}
