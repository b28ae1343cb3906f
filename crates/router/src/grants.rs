//! Files and sockets that were opened for the router: its process opens nothing itself.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use europa_resource::Resource;

/// The descriptors that elements may take, each once.
#[derive(Default)]
pub(crate) struct Grants(RefCell<Vec<(String, OwnedFd)>>);

impl Grants {
    /// Names of the grants, and their descriptors.
    pub(crate) fn new(names: &[String], descriptors: Vec<OwnedFd>) -> Self {
        Self(RefCell::new(names.iter().cloned().zip(descriptors).collect()))
    }

    /// Hands one over.
    ///
    /// # Errors
    /// The grant does not exist, or has already been taken.
    pub(crate) fn take(&self, resource: &Resource) -> io::Result<OwnedFd> {
        let name = resource.to_string();
        let mut left = self.0.borrow_mut();
        let at = left.iter().position(|(granted, _)| *granted == name);
        let (_, descriptor) = left.remove(at.ok_or(io::ErrorKind::PermissionDenied)?);
        Ok(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_for_one() {
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let names = ["read: /a".to_owned(), "read: /a".to_owned(), "write: /b".to_owned()];
        let grants = Grants::new(&names, vec![null(), null(), null()]);
        let [a, b] = ["/a", "/b"].map(|path| Resource::Read(path.to_owned()));
        assert!(grants.take(&a).is_ok() && grants.take(&a).is_ok());
        for refused in [&a, &b] {
            let error = grants.take(refused).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
